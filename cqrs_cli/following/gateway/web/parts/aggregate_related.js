/** Aggregates whose commands have the same correlation id as an event; searched when the reader asks for them. */

import { get } from "../client.js";
import { html, useState } from "../html.js";
import { useResource } from "../resource.js";
import { linkTo, linkToAggregate } from "../router.js";
import { relatedAggregates } from "../traces.js";
import { Loaded, Nothing, Panel, Text } from "./basics.js";

/** The search begins so many milliseconds before the event. */
const LONGEST_CORRELATION = 86_400_000;

export function RelatedPanel({ name, id, event }) {
  const [isAsked, setAsked] = useState(false);
  const trace = linkTo(["trace"], { id: event.correlationid });
  return html`
    <${Panel} title="Related aggregates" aside=${html`<a href=${trace}>Trace</a>`}>
      ${isAsked
        ? html`<${Related} ...${{ name, id, event }} />`
        : html`<button onClick=${() => setAsked(true)}>Search by correlation</button>`}
    <//>
  `;
}

function Related({ name, id, event }) {
  const since = event.time && new Date(Date.parse(event.time) - LONGEST_CORRELATION).toISOString();
  const resource = useResource((signal) => get("api/trace", { id: event.correlationid, since }, signal), [event.correlationid]);
  return html`
    <${Loaded} resource=${resource}>
      ${(trace) => {
        const others = relatedAggregates(trace).filter((other) => other.aggregate !== name || other.subject !== id);
        if (!others.length) return html`<${Nothing}>No other aggregate has this correlation.<//>`;
        return html`
          <ul class="links">
            ${others.map(
              ({ aggregate, subject }) => html`
                <li><a href=${linkToAggregate(aggregate, subject)}><span class="type">${aggregate}</span> <${Text}>${subject}<//></a></li>
              `,
            )}
          </ul>
        `;
      }}
    <//>
  `;
}
