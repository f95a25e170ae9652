/** An action on a selection: a preview with the count of what it will change, then the action. */

import { post, Problem } from "../client.js";
import { count, shortType } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { Failure, Text } from "./basics.js";

/**
 * `path`: of the action; `selection`: its body; `describe(preview)` returns what the action will do, `report(result)` what it
 * did. The action carries the preview's digest of the selection, so it changes nothing if it would select other commands.
 */
export function ActionButton({ name, tone = "primary", path, selection, describe, report, done }) {
  const dialog = useRef(null);
  const [step, setStep] = useState(null); // {preview} | {result} | {error} | {busy}
  useEffect(() => {
    if (step && !dialog.current.open) dialog.current.showModal();
  }, [step]);
  const run = async (act) => {
    setStep({ busy: true });
    try {
      setStep(await act());
    } catch (error) {
      setStep({ error });
    }
  };
  const preview = () => run(async () => ({ preview: await post(path, selection, { query: { dry_run: "true" } }) }));
  const act = () =>
    run(async () => ({ result: await post(path, { ...selection, selection: step.preview.selection }) }));
  const close = () => {
    dialog.current.close();
    if (step?.result) done();
    setStep(null);
  };
  return html`
    <button onClick=${preview}>${name} …</button>
    ${step &&
    html`
      <dialog ref=${dialog} aria-label=${name} onCancel=${(event) => (event.preventDefault(), close())}>
        <h2>${name}</h2>
        ${step.busy && html`<p class="faint" aria-busy="true">Working …</p>`}
        ${step.preview && html`<p>${describe(step.preview)}</p><${Examples} preview=${step.preview} />`}
        ${step.result && html`<p role="status">${report(step.result)}</p>`}
        ${step.error && html`<${ActionFailure} error=${step.error} />`}
        <div class="buttons">
          ${step.preview?.count > 0 && html`<button class=${tone} onClick=${act}>${name}</button>`}
          ${step.error?.status === 409 && html`<button onClick=${preview}>Preview again</button>`}
          <button onClick=${close}>Close</button>
        </div>
      </dialog>
    `}
  `;
}

const SHOWN = 5;

/** The first items of a preview of dead letters or deferred commands. */
function Examples({ preview }) {
  const all = preview.dead_letters ?? preview.deferred;
  if (!all) return null;
  const items = all.slice(0, SHOWN);
  const rest = preview.count - items.length;
  return html`
    <ul class="examples">
      ${items.map((item) => {
        const type = item.type ?? item.command?.type;
        return html`<li><strong>${type ? shortType(type) : "unreadable"}</strong> <${Text}>${item.aggregate_id}<//></li>`;
      })}
      ${rest > 0 && html`<li class="faint">and ${count(rest, "other")}</li>`}
    </ul>
  `;
}

const ActionFailure = ({ error }) =>
  error instanceof Problem && error.status === 409
    ? html`<p class="notice warning" role="alert">The selection has changed since the preview. Nothing was done.</p>`
    : html`<${Failure} error=${error} />`;

/** Return the selection of an action's request: the filters that are set, or all. */
export function selectionOf(name, { type, reason, ...filters }) {
  const set = Object.fromEntries(Object.entries(filters).filter(([, value]) => value));
  if (type) set.types = [type];
  if (reason) set.reasons = [reason];
  return { aggregate: name, ...(Object.keys(set).length ? set : { all: true }) };
}
