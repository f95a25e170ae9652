/** Chooses one of the served aggregates. */

import { html } from "../html.js";

export const AggregateChoice = ({ session, name, choose }) => html`
  <label>
    Aggregate
    <select value=${name} onChange=${(event) => choose(event.currentTarget.value)}>
      ${Object.keys(session.aggregates).map((known) => html`<option>${known}</option>`)}
    </select>
  </label>
`;

/** A text of a filter, which is applied when the reader leaves the field or presses Enter. */
export const FilterText = ({ name, value = "", hint = "", apply }) => html`
  <label>
    ${name}
    <input type="search" value=${value} placeholder=${hint} onChange=${(event) => apply(event.currentTarget.value.trim())} />
  </label>
`;
