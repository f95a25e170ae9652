/** The state of an aggregate at a version, and what the version's event changed. */

import { get, pathOf } from "../client.js";
import { changedPaths, differencesOf, formatPath } from "../differences.js";
import { count } from "../format.js";
import { html, useMemo, useRef } from "../html.js";
import { useResource } from "../resource.js";
import { Badge, Loaded, Panel, Text } from "./basics.js";
import { Brief, Tree } from "./tree.js";

/** States that are kept while the slider moves. */
const KEPT_STATES = 20;

/** The type of the event that erases personal values. */
const ERASED = "cqrs.Erased";

export function StatePanel({ name, id, found, version, event }) {
  const cache = useRef(new Map());
  const resource = useResource(
    async (signal) => {
      const load = (number) => loadState(cache.current, found, name, id, number, signal);
      const [present, before] = await Promise.all([load(version), version > 1 ? load(version - 1) : null]);
      return { version, present, before };
    },
    [name, id, version],
  );
  const shown = useRef(null);
  if (resource.data) shown.current = resource.data; // while the slider moves, the old state stays
  const kept = resource.error ? resource : { ...resource, data: resource.data ?? shown.current };
  return html`
    <${Panel} title="State" aside=${event && html`<${Badge}>after ${event.type.split(".").pop()}<//>`}>
      <${Loaded} resource=${kept}>${(data) => html`<${State} ...${data} isErasure=${event?.type === ERASED} />`}<//>
    <//>
  `;
}

/** Return `{state, redacted}` at a version, from the cache or the gateway. */
async function loadState(cache, found, name, id, version, signal) {
  if (version === found.version) return found;
  if (!cache.has(version)) {
    cache.set(version, await get(pathOf(name, id), { version }, signal));
    if (cache.size > KEPT_STATES) cache.delete(cache.keys().next().value);
  }
  return cache.get(version);
}

function State({ present, before, version, isErasure }) {
  const differences = useMemo(
    () => (before ? differencesOf(before.state, present.state) : []),
    [present, before],
  );
  const changes = useMemo(() => changedPaths(differences), [differences]);
  return html`
    ${isErasure
      ? html`<p class="changes faint">Personal values are erased, in earlier versions, too.</p>`
      : before && html`<${Differences} differences=${differences} />`}
    <${Tree} key=${version} value=${present.state} changes=${changes} redacted=${present.redacted} />
  `;
}

const SHOWN = 8;

function Differences({ differences }) {
  if (!differences.length) return html`<p class="changes faint">This event changed nothing in the state.</p>`;
  const rest = differences.length - SHOWN;
  return html`
    <ul class="changes" aria-label="Changes">
      ${differences.slice(0, SHOWN).map(
        ({ path, before, after }) => html`
          <li key=${JSON.stringify(path)}>
            <${Text} class="name">${formatPath(path)}<//>
            <del><${Brief} value=${before} /></del> → <ins><${Brief} value=${after} /></ins>
          </li>
        `,
      )}
      ${rest > 0 && html`<li class="faint">and ${count(rest, "more change")}</li>`}
    </ul>
  `;
}
