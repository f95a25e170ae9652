/** The events of an aggregate, newest first; the chosen version is unfolded. */

import { count, formatNumber, shortType } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { linkTo, linkToAggregate } from "../router.js";
import { Panel, Text, Time } from "./basics.js";
import { BriefFields, Tree } from "./tree.js";

/** Events that are shown at a time: an aggregate may have 10,000. */
const PIECE = 50;

export function Timeline({ name, id, history, version }) {
  const chosenFromEnd = history.length - version;
  const [start, setStart] = useState(0);
  useEffect(() => setStart(Math.floor(chosenFromEnd / PIECE) * PIECE), [chosenFromEnd, history.length]);
  const end = Math.max(history.length - start, 0);
  const shown = history.slice(Math.max(end - PIECE, 0), end).reverse();
  const aside = html`<span class="faint">${count(history.length, "event")}</span>`;
  return html`
    <${Panel} title="Timeline" aside=${aside}>
      ${start > 0 && html`<button class="quiet" onClick=${() => setStart(Math.max(start - PIECE, 0))}>Newer events</button>`}
      <ol class="timeline" reversed start=${end}>
        ${shown.map(
          (event) => html`
            <li key=${event.version} aria-current=${event.version === version ? "true" : undefined}>
              <${Row} name=${name} id=${id} event=${event} isChosen=${event.version === version} />
            </li>
          `,
        )}
      </ol>
      ${end > PIECE && html`<button class="quiet" onClick=${() => setStart(start + PIECE)}>Older events</button>`}
    <//>
  `;
}

function Row({ name, id, event, isChosen }) {
  return html`
    <a class="row" href=${linkToAggregate(name, id, { version: event.version })}>
      <span class="version">${formatNumber(event.version)}</span>
      <strong>${shortType(event.type)}</strong>
      <span class="when"><${Time} value=${event.time} /></span>
      ${!isChosen && html`<span class="brief"><${BriefFields} data=${event.data} redacted=${event.redacted} /></span>`}
    </a>
    ${isChosen && html`<${Details} event=${event} />`}
  `;
}

const Details = ({ event }) => html`
  <div class="details">
    <${Tree} value=${event.data} redacted=${event.redacted} />
    <dl>
      <dt>caused by</dt>
      <dd><a href=${linkTo(["trace"], { id: event.causationid })}><${Text}>${event.causationid}<//></a></dd>
      <dt>correlation</dt>
      <dd><a href=${linkTo(["trace"], { id: event.correlationid })}><${Text}>${event.correlationid}<//></a></dd>
    </dl>
  </div>
`;
