/** Small parts of pages: headings, times, badges, messages. */

import { formatAge, formatTime } from "../format.js";
import { html, useState } from "../html.js";

/** A text of unknown direction, such as an id, which must not reorder its surroundings. */
export const Text = ({ children, ...attributes }) => html`<bdi ...${attributes}>${children}</bdi>`;

/** A time in UTC; the tooltip has its age, and the time of the reader's time zone. */
export function Time({ value }) {
  if (!value) return html`<span class="faint">–</span>`;
  const hint = `${formatAge(value)} · ${new Date(value).toLocaleString()}`;
  return html`<time datetime=${value} title=${hint}>${formatTime(value)}</time>`;
}

const TONES = {
  accepted: "good",
  unchanged: "calm",
  duplicate: "calm",
  deferred: "calm",
  rejected: "warning",
  failed: "error",
  waiting: "calm",
};

/** An outcome's status, or another short word. */
export const Badge = ({ tone, children }) => html`<span class="badge ${tone ?? TONES[children] ?? "calm"}">${children}</span>`;

/** The heading of a page, with its actions on the right. */
export const PageHead = ({ title, children }) => html`
  <div class="page-head">
    <h1>${title}</h1>
    <div class="buttons">${children}</div>
  </div>
`;

/** A panel with a heading. */
export const Panel = ({ title, aside, children, ...attributes }) => html`
  <section class="panel" aria-label=${title} ...${attributes}>
    <header><h2>${title}</h2>${aside}</header>
    ${children}
  </section>
`;

/** What went wrong with a request. */
export const Failure = ({ error }) => html`
  <div class="notice error" role="alert"><strong>${error.title ?? error.name}</strong> <${Text}>${error.message}<//></div>
`;

/** The data of a resource once it is there; before, its error or a quiet placeholder. */
export function Loaded({ resource, children }) {
  if (resource.data !== null) return children(resource.data);
  if (resource.error) return html`<${Failure} error=${resource.error} />`;
  return html`<p class="faint" aria-busy="true">Loading …</p>`;
}

export const Nothing = ({ children }) => html`<p class="nothing">${children}</p>`;

/** A button that copies a text. */
export function CopyButton({ text, name = "Copy" }) {
  const [isDone, setDone] = useState(false);
  if (!navigator.clipboard) return null; // without TLS, browsers have none
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return html`<button class="quiet" onClick=${copy}>${isDone ? "Copied" : name}</button>`;
}

/** A command line that an operator may copy. */
export const CommandLine = ({ children }) => html`
  <span class="command-line"><code>${children}</code><${CopyButton} text=${children} /></span>
`;
