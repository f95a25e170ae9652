/** A correlation as a graph over aggregates, and as a list (`#/trace?id=ID&since=7d`). */

import { get } from "../client.js";
import { count, shortType } from "../format.js";
import { html } from "../html.js";
import { Why } from "../parts/aggregate_commands.js";
import { Badge, Loaded, Nothing, PageHead, Panel, Text, Time } from "../parts/basics.js";
import { SearchForm, useSearchText } from "../parts/search_form.js";
import { TraceGraph } from "../parts/trace_graph.js";
import { BriefFields } from "../parts/tree.js";
import { useResource } from "../resource.js";
import { linkTo, linkToAggregate, navigate } from "../router.js";
import { commandsOf } from "../traces.js";

export const title = (parts, { id }) => (id ? `Trace ${id}` : "Trace");

export function Page({ query: { id = "", since = "1d" } }) {
  const { text, write, submit, repeats } = useSearchText(id, () => go({}));
  const go = (change) => navigate(linkTo(["trace"], { id: text.trim(), since, ...change }));
  return html`
    <${PageHead} title="Trace" />
    <${SearchForm}
      label="Id of a correlation, command or event"
      button="Trace"
      ...${{ text, write, submit, since }}
      choose=${(period) => go({ since: period })}
    />
    ${id
      ? html`<${Trace} ...${{ id, since, repeats }} />`
      : html`<${Nothing}>Shows which commands and events followed from each other, over all aggregates.<//>`}
  `;
}

function Trace({ id, since, repeats }) {
  const resource = useResource((signal) => get("api/trace", { id, since }, signal), [id, since], { after: repeats });
  if (resource.error?.status === 404) return html`<${Nothing}>Nothing has this id. Choose a longer time to search older records.<//>`;
  return html`
    <${Loaded} resource=${resource}>
      ${(trace) => {
        const commands = [...commandsOf(trace.commands)];
        return html`
          <${Panel} title="Graph" aside=${html`<span class="faint">${count(commands.length, "command")}</span>`}>
            <${TraceGraph} commands=${commands} searchedId=${id} />
          <//>
          <${Panel} title="Commands"><${CommandList} commands=${commands} /><//>
        `;
      }}
    <//>
  `;
}

const CommandList = ({ commands }) => html`
  <table class="stacking">
    <thead><tr><th>Time</th><th>Aggregate</th><th>Command</th><th>Outcome</th><th>Events</th></tr></thead>
    <tbody>
      ${commands.map(
        ({ node, through }) => html`
          <tr key=${node.id}>
            <td><${Time} value=${node.time} /></td>
            <td>
              <a href=${linkToAggregate(node.aggregate, node.subject)}>
                <span class="type">${node.aggregate}</span> <${Text}>${node.subject}<//>
              </a>
            </td>
            <td>
              <strong>${shortType(node.type)}</strong> <${BriefFields} data=${node.data} redacted=${node.redacted} />
              ${through && html`<div class="faint">after ${shortType(through.type)}</div>`}
              ${node.actor && html`<div class="faint">by <${Text}>${node.actor}<//></div>`}
            </td>
            <td>
              <${Badge}>${node.outcome?.status ?? "waiting"}<//> <${Why} outcome=${node.outcome} />
              ${node.outcome?.due && html`<div class="faint">due <${Time} value=${node.outcome.due} /></div>`}
            </td>
            <td>
              ${(node.events ?? []).map(
                (event) => html`<div>${shortType(event.type)} <${BriefFields} data=${event.data} redacted=${event.redacted} /></div>`,
              )}
            </td>
          </tr>
        `,
      )}
    </tbody>
  </table>
`;
