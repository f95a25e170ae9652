/** A JSON value as a tree. Containers render their members when they are opened, in pieces: a state may have 1 MB. */

import { count } from "../format.js";
import { html, useState } from "../html.js";
import { Text } from "./basics.js";

const PIECE = 100;
const LONG_TEXT = 400;
const OPEN_MEMBERS = 20;
const NO_CHANGES = { changed: new Map(), above: new Set() };

/** `changes`: of `changedPaths`; `redacted`: names of personal fields whose values the reader may not see. */
export const Tree = ({ value, changes = NO_CHANGES, redacted = [] }) => html`
  <div class="tree"><${Members} value=${value} path=${[]} changes=${changes} redacted=${redacted} /></div>
`;

const isContainer = (value) => typeof value === "object" && value !== null;

function Members({ value, path, changes, redacted = [] }) {
  const [limit, setLimit] = useState(PIECE);
  if (!isContainer(value)) return html`<${Scalar} value=${value} />`;
  const names = Object.keys(value);
  const rest = names.length - limit;
  if (!names.length) return html`<p class="faint">${Array.isArray(value) ? "no items" : "no fields"}</p>`;
  return html`
    <ul>
      ${names.slice(0, limit).map(
        (name) => html`
          <li key=${name}>
            <${Member}
              name=${name}
              value=${value[name]}
              path=${[...path, Array.isArray(value) ? Number(name) : name]}
              changes=${changes}
              isRedacted=${redacted.includes(name)}
            />
          </li>
        `,
      )}
      ${rest > 0 &&
      html`<li>
        <button class="quiet" onClick=${() => setLimit(limit + 10 * PIECE)}>${count(rest, "more member")}</button>
      </li>`}
    </ul>
  `;
}

function Member({ name, value, path, changes, isRedacted }) {
  const key = JSON.stringify(path);
  const difference = changes.changed.get(key);
  const isChangedWithin = changes.above.has(key);
  const mark = difference ? "changed" : isChangedWithin ? "changed-within" : "";
  if (isRedacted) {
    return html`<div class="leaf"><${Name}>${name}<//><span class="redacted">redacted</span></div>`;
  }
  if (isContainer(value) && Object.keys(value).length) {
    return html`<${Branch} ...${{ name, value, path, changes, mark }} opens=${isChangedWithin} />`;
  }
  return html`
    <div class="leaf ${mark}">
      <${Name}>${name}<//><${Scalar} value=${value} />
      ${difference && html` <${Before} value=${difference.before} />`}
    </div>
  `;
}

const Name = ({ children }) => html`<${Text} class="name">${children}<//>`;

function Branch({ name, value, path, changes, mark, opens }) {
  const size = Object.keys(value).length;
  const [isOpen, setOpen] = useState(path.length < 2 && size <= OPEN_MEMBERS);
  const [wasClosed, setClosed] = useState(false);
  const shown = isOpen || (opens && !wasClosed);
  const toggle = (event) => {
    setOpen(event.currentTarget.open);
    setClosed(!event.currentTarget.open);
  };
  return html`
    <details open=${shown} onToggle=${toggle} class=${mark}>
      <summary>
        <${Name}>${name}<//>
        <span class="faint">${Array.isArray(value) ? count(size, "item") : count(size, "field")}</span>
      </summary>
      ${shown && html`<${Members} value=${value} path=${path} changes=${changes} />`}
    </details>
  `;
}

const Before = ({ value }) =>
  value === undefined ? html`<span class="before">new</span>` : html`<span class="before">was <${Brief} value=${value} /></span>`;

/** A text, number, truth value or null; an empty container, too. */
export function Scalar({ value }) {
  const [isWhole, setWhole] = useState(false);
  if (typeof value === "string") {
    const isCut = value.length > LONG_TEXT && !isWhole;
    return html`
      <${Text} class="value text">${isCut ? `${value.slice(0, LONG_TEXT)}…` : value}<//>
      ${isCut &&
      html` <button class="quiet" onClick=${() => setWhole(true)}>all ${count(value.length, "character")}</button>`}
    `;
  }
  if (Array.isArray(value)) return html`<span class="faint">no items</span>`;
  if (isContainer(value)) return html`<span class="faint">no fields</span>`;
  return html`<span class="value ${typeof value}">${String(value)}</span>`;
}

/** A value in at most about a line. */
export function Brief({ value, length = 80 }) {
  if (value === undefined) return html`<span class="faint">nothing</span>`;
  if (isContainer(value)) {
    const size = Object.keys(value).length;
    return html`<span class="faint">${Array.isArray(value) ? count(size, "item") : count(size, "field")}</span>`;
  }
  const text = String(value);
  const shown = text.length > length ? `${text.slice(0, length)}…` : text;
  return html`<${Text} class="value ${typeof value === "string" ? "text" : typeof value}">${shown || "(empty)"}<//>`;
}

/** The fields of an event or command in a line: `sku a  quantity 2`. */
export function BriefFields({ data, redacted = [] }) {
  if (!isContainer(data)) return data === null || data === undefined ? null : html`<${Brief} value=${data} />`;
  return Object.entries(data)
    .slice(0, 6)
    .map(
      ([name, value]) => html`
        <span class="field">
          <span class="name"><bdi>${name}</bdi></span>
          ${redacted.includes(name) ? html`<span class="redacted">redacted</span>` : html`<${Brief} value=${value} length=${60} />`}
        </span>
      `,
    );
}
