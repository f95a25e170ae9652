/** The colour scheme: the system's, or the reader's choice, which this browser remembers. */

import { html, useState } from "../html.js";

const KEY = "cqrs.theme";
const NEXT = { "": "light", light: "dark", dark: "" };
const NAMES = { "": "System colours", light: "Light colours", dark: "Dark colours" };

function apply(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

const stored = localStorage.getItem(KEY) ?? "";
const first = stored in NAMES ? stored : "";
apply(first);

export function ThemeButton() {
  const [theme, setTheme] = useState(first);
  const change = () => {
    const next = NEXT[theme];
    localStorage.setItem(KEY, next);
    apply(next);
    setTheme(next);
  };
  return html`<button class="quiet" onClick=${change}>${NAMES[theme]}</button>`;
}
