/** An aggregate: its state at any version, its events, its commands, what waits (`#/aggregate/order/o-42?version=7`). */

import { get, pathOf, Problem } from "../client.js";
import { formatNumber } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { CommandsPanel } from "../parts/aggregate_commands.js";
import { RelatedPanel } from "../parts/aggregate_related.js";
import { StatePanel } from "../parts/aggregate_state.js";
import { CopyButton, Failure, Loaded, Nothing, PageHead, Text, Time } from "../parts/basics.js";
import { Timeline } from "../parts/timeline.js";
import { VersionSlider } from "../parts/version_slider.js";
import { useResource, useSettled, useStream } from "../resource.js";
import { maySend } from "../rights.js";
import { linkTo, linkToAggregate, navigate } from "../router.js";

/** Events that arrive in quick succession cause one request. */
const REFRESH_DELAY = 300;

export const title = ([name, id]) => `${name} ${id}`;

export function Page({ parts: [name, id], query, session }) {
  const resource = useResource((signal) => loadHistory(name, id, signal), [name, id]);
  const timer = useRef(null);
  const refresh = () => {
    timer.current ??= setTimeout(() => {
      timer.current = null;
      resource.reload();
    }, REFRESH_DELAY);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  const isNew = resource.error?.status === 404;
  // The history is read before the stream is open: an event between the two is in neither, so it is read again.
  useStream(resource.data || isNew ? pathOf(name, id) : null, { onEvent: refresh, onOpen: refresh });
  return html`
    <${PageHead} title=${html`<span class="type">${name}</span> <${Text}>${id}<//>`}>
      <${CopyButton} text=${id} name="Copy id" />
      ${maySend(session) && html`<a class="button" href=${linkTo(["send", name, id])}>Send a command</a>`}
    <//>
    ${isNew
      ? html`<${Nothing}>This aggregate has no event yet.<//>`
      : html`
          <${Loaded} resource=${resource}>
            ${(found) => html`<${Versions} name=${name} id=${id} found=${found} chosen=${Number(query.version) || null} />`}
          <//>
        `}
    ${(resource.data || isNew) && html`<${CommandsPanel} name=${name} id=${id} version=${resource.data?.version} />`}
  `;
}

/** Return the history. If it is too long for one response, return the state with `history: null`. */
async function loadHistory(name, id, signal) {
  try {
    return await get(`${pathOf(name, id)}/history`, {}, signal);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 413) throw error;
    return { ...(await get(pathOf(name, id), {}, signal)), history: null };
  }
}

function Versions({ name, id, found, chosen }) {
  const [version, setVersion] = useState(chosen ?? found.version);
  const followsLatest = useRef(chosen === null);
  useEffect(() => {
    if (chosen !== null) {
      followsLatest.current = false;
      setVersion(chosen);
    } else {
      followsLatest.current = true;
      setVersion(found.version);
    }
  }, [chosen]);
  useEffect(() => {
    if (followsLatest.current) setVersion(found.version);
  }, [found.version]);

  const choose = (next) => {
    followsLatest.current = next === found.version;
    setVersion(next);
  };
  const settled = useSettled(version, 150);
  const keep = (next) =>
    navigate(linkToAggregate(name, id, next === found.version ? {} : { version: next }), { replace: true });
  const event = found.history?.[version - 1];
  return html`
    <p class="facts">
      <span>version <strong>${formatNumber(version)}</strong> of ${formatNumber(found.version)}</span>
      ${event && html`<span><${Time} value=${event.time} /></span>`}
    </p>
    <${VersionSlider} ...${{ found, version, choose, keep }} />
    <div class="columns">
      <${StatePanel} ...${{ name, id, found, version: settled, event: found.history?.[settled - 1] }} />
      ${found.history
        ? html`<${Timeline} ...${{ name, id, history: found.history, version: settled }} />`
        : html`<${Failure} error=${{ title: "Long history", message: "its events are too long for one response" }} />`}
    </div>
    ${event && html`<${RelatedPanel} key=${event.correlationid} ...${{ name, id, event }} />`}
  `;
}
