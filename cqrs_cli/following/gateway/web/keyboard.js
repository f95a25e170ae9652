/** Shortcuts: `/` searches, `g` and a letter open a page. They are off while text is written. */

import { useEffect } from "./html.js";
import { linkTo, navigate } from "./router.js";

const TEXT_FIELDS = "input, textarea, select, [contenteditable]";
const SEQUENCE_TIME = 1_500;

export function useShortcuts(navigation) {
  useEffect(() => {
    let goPressedAt = -Infinity;
    const press = (event) => {
      const isText = event.target.matches?.(TEXT_FIELDS) && event.target.type !== "range";
      if (isText || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      const target = navigation.find(({ key }) => key === event.key);
      if (event.key === "/") {
        event.preventDefault();
        const field = document.getElementById("quick-search");
        field.closest("[data-open]").dataset.open = "true";
        field.focus();
      } else if (target && event.timeStamp - goPressedAt < SEQUENCE_TIME) {
        navigate(linkTo([target.page]));
      }
      goPressedAt = event.key === "g" ? event.timeStamp : -Infinity;
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}
