/** The form of the pages that search: a text, the time since when, further fields, and a button. */

import { html, useEffect, useState } from "../html.js";

const PERIODS = { "1h": "last hour", "1d": "last day", "7d": "last week", "30d": "last month", "3650d": "all" };

/** `choose(since)`: another period was chosen. */
export const PeriodChoice = ({ since, choose }) => html`
  <label>
    Time
    <select value=${since} onChange=${(event) => choose(event.currentTarget.value)}>
      ${Object.entries(PERIODS).map(([value, name]) => html`<option value=${value}>${name}</option>`)}
    </select>
  </label>
`;

/**
 * The text of a form whose page shows the results of `searched`. Return `{text, write, submit, repeats}`: `submit` calls
 * `go` for another text, and counts a repeat for the same text.
 */
export function useSearchText(searched, go) {
  const [text, write] = useState(searched);
  const [repeats, setRepeats] = useState(0);
  useEffect(() => write(searched), [searched]);
  const submit = () => (text.trim() === searched ? setRepeats(repeats + 1) : go());
  return { text, write, submit, repeats };
}

/** `write(text)` while the text is written, `choose(since)` for another period, `submit()` for the button or Enter. */
export function SearchForm({ label, button, text, write, since, choose, submit, children }) {
  const send = (event) => {
    event.preventDefault();
    submit();
  };
  return html`
    <form class="filters search" onSubmit=${send}>
      <label>
        ${label}
        <input type="search" required value=${text} onInput=${(event) => write(event.currentTarget.value)} />
      </label>
      <${PeriodChoice} since=${since} choose=${choose} />
      ${children}
      <button class="primary">${button}</button>
    </form>
  `;
}
