/** Commands that wait for a later time (`#/deferred/order`), and how to release or cancel them. */

import { get } from "../client.js";
import { count, formatAge, shortType } from "../format.js";
import { html } from "../html.js";
import { ActionButton, selectionOf } from "../parts/action_button.js";
import { AggregateChoice, FilterText } from "../parts/aggregate_choice.js";
import { Badge, Loaded, Nothing, PageHead, Panel, Text, Time } from "../parts/basics.js";
import { BriefFields } from "../parts/tree.js";
import { POLL_INTERVAL, useResource } from "../resource.js";
import { mayOperate } from "../rights.js";
import { linkTo, linkToAggregate, navigate } from "../router.js";

const LIMIT = 200;

export const title = ([name]) => (name ? `Deferred commands of ${name}` : "Deferred commands");

export function Page({ parts, query, session }) {
  const name = parts[0] in session.aggregates ? parts[0] : Object.keys(session.aggregates)[0];
  const { id, aggregate_id, type, before } = query;
  const filters = { id, aggregate_id, type, before };
  const parameters = { aggregate: name, ...filters, limit: LIMIT };
  const resource = useResource((signal) => get("api/deferred", parameters, signal), [parameters], { every: POLL_INTERVAL });
  const go = (change, target = name) =>
    navigate(linkTo(["deferred", target], { ...filters, ...change }), { replace: true });
  return html`
    <${PageHead} title="Deferred commands" />
    <div class="filters">
      <${AggregateChoice} session=${session} name=${name} choose=${(next) => go({ type: "", aggregate_id: "", id: "" }, next)} />
      <${FilterText} name="Aggregate id" value=${aggregate_id} apply=${(text) => go({ aggregate_id: text })} />
      <${FilterText} name="Command" hint="Cancel" value=${type} apply=${(text) => go({ type: text })} />
      <${FilterText} name="Command id" value=${id} apply=${(text) => go({ id: text })} />
      <${FilterText} name="Due before" hint="1h" value=${before} apply=${(text) => go({ before: text })} />
    </div>
    <${Loaded} resource=${resource}>
      ${(found) => html`
        <${Panel} title=${count(found.count, "deferred command")}>
          ${mayOperate(session) &&
          found.count > 0 &&
          html`<div class="buttons actions"><${Actions} ...${{ name, filters }} done=${resource.reload} /></div>`}
          ${found.deferred.length
            ? html`<${Entries} ...${{ name, session }} entries=${found.deferred} reload=${resource.reload} />`
            : html`<${Nothing}>No such command waits.<//>`}
          ${found.limited && html`<p class="faint">The first ${LIMIT} are shown.</p>`}
        <//>
      `}
    <//>
  `;
}

const Actions = ({ name, filters, done }) => html`
  <${ActionButton}
    name="Release"
    path="api/deferred/release"
    selection=${selectionOf(name, filters)}
    describe=${({ count: number }) => `${count(number, "command")} will be decided now instead of when due.`}
    report=${({ sent }) => `${count(sent, "request")} sent.`}
    done=${done}
  />
  <${ActionButton}
    name="Cancel"
    tone="danger"
    path="api/deferred/cancel"
    selection=${selectionOf(name, filters)}
    describe=${({ count: number }) => `${count(number, "command")} will never be decided.`}
    report=${({ sent }) => `${count(sent, "request")} sent.`}
    done=${done}
  />
`;

const Entries = ({ name, entries, session, reload }) => html`
  <table class="stacking">
    <thead><tr><th>Due</th><th>Aggregate</th><th>Command</th><th>State</th><th></th></tr></thead>
    <tbody>
      ${entries.map(
        (entry) => html`
          <tr key=${entry.id}>
            <td><${Time} value=${entry.due} /> <span class="faint">${formatAge(entry.due)}</span></td>
            <td><a href=${linkToAggregate(name, entry.aggregate_id)}><${Text}>${entry.aggregate_id}<//></a></td>
            <td>
              <a href=${linkTo(["trace"], { id: entry.id, since: "3650d" })}>${shortType(entry.command?.type ?? "command")}</a>
              ${" "}<${BriefFields} data=${entry.command?.data} redacted=${entry.redacted} />
            </td>
            <td><${Badge}>${entry.state}<//> <span class="faint">${entry.reason}</span></td>
            <td class="buttons">
              ${mayOperate(session) &&
              entry.state === "parked" &&
              html`<${Actions} name=${name} filters=${{ id: entry.id }} done=${reload} />`}
            </td>
          </tr>
        `,
      )}
    </tbody>
  </table>
`;
