/** Commands that could not be decided (`#/dead-letters/order?open=true`), and how to retry or drop them. */

import { get } from "../client.js";
import { count, shortType } from "../format.js";
import { html, useState } from "../html.js";
import { ActionButton, selectionOf } from "../parts/action_button.js";
import { AggregateChoice, FilterText } from "../parts/aggregate_choice.js";
import { Badge, Loaded, Nothing, PageHead, Panel, Text, Time } from "../parts/basics.js";
import { Tree } from "../parts/tree.js";
import { POLL_INTERVAL, useResource } from "../resource.js";
import { mayOperate } from "../rights.js";
import { linkTo, linkToAggregate, navigate } from "../router.js";

const LIMIT = 200;

/** Dead letters are dropped by their age, because the topic is a log. */
const DROP_AGES = { "1d": "a day", "7d": "a week", "30d": "a month" };

export const title = ([name]) => (name ? `Dead letters of ${name}` : "Dead letters");

export function Page({ parts, query, session }) {
  const name = parts[0] in session.aggregates ? parts[0] : Object.keys(session.aggregates)[0];
  const { id, aggregate_id, type, reason, since, before } = query;
  const open = query.open ?? "true";
  const filters = { id, aggregate_id, type, reason, since, before };
  const parameters = { aggregate: name, ...filters, open, limit: LIMIT };
  const resource = useResource((signal) => get("api/dead-letters", parameters, signal), [parameters], { every: POLL_INTERVAL });
  const go = (change, target = name) =>
    navigate(linkTo(["dead-letters", target], { ...filters, open: query.open, ...change }), { replace: true });
  return html`
    <${PageHead} title="Dead letters" />
    <div class="filters">
      <${AggregateChoice} session=${session} name=${name} choose=${(next) => go({ type: "", aggregate_id: "" }, next)} />
      <${FilterText} name="Aggregate id" value=${aggregate_id} apply=${(text) => go({ aggregate_id: text })} />
      <${FilterText} name="Command" hint="Withdraw" value=${type} apply=${(text) => go({ type: text })} />
      <${FilterText} name="Reason" hint="HANDLER_ERROR" value=${reason} apply=${(text) => go({ reason: text.toUpperCase() })} />
      <${FilterText} name="Since" hint="2h" value=${since} apply=${(text) => go({ since: text })} />
      <label class="check">
        <input
          type="checkbox"
          checked=${open === "true"}
          onChange=${(event) => go({ open: event.currentTarget.checked ? "" : "false" })}
        />
        only open
      </label>
    </div>
    <${Loaded} resource=${resource}>
      ${(found) => html`
        <${Panel} title=${count(found.count, "dead letter")}>
          ${mayOperate(session) &&
          html`<div class="buttons actions">
            <${Retry} name=${name} filters=${filters} done=${resource.reload} />
            <${Drop} name=${name} done=${resource.reload} />
          </div>`}
          ${found.dead_letters.length
            ? html`<${Letters} name=${name} letters=${found.dead_letters} session=${session} reload=${resource.reload} />`
            : html`<${Nothing}>There is no such dead letter.<//>`}
          ${found.limited && html`<p class="faint">The first ${LIMIT} are shown.</p>`}
        <//>
      `}
    <//>
  `;
}

const Retry = ({ name, filters, done, label = "Retry" }) => html`
  <${ActionButton}
    name=${label}
    path="api/dead-letters/retry"
    selection=${selectionOf(name, filters)}
    describe=${({ count: number, unreadable }) =>
      `${count(number, "open dead letter")} will be sent again as new commands.${unreadable ? ` ${unreadable} cannot be read, and stay.` : ""}`}
    report=${({ sent }) => `${count(sent, "command")} sent.`}
    done=${done}
  />
`;

function Drop({ name, done }) {
  const [before, setBefore] = useState("30d");
  return html`
    <label>
      older than
      <select value=${before} onChange=${(event) => setBefore(event.currentTarget.value)}>
        ${Object.entries(DROP_AGES).map(([value, age]) => html`<option value=${value}>${age}</option>`)}
      </select>
    </label>
    <${ActionButton}
      name="Drop old letters"
      tone="danger"
      path="api/dead-letters/drop"
      selection=${{ aggregate: name, before }}
      describe=${({ count: number }) => `${count(number, "dead letter")} will be deleted from the topic, for ever.`}
      report=${({ dropped }) => `${count(dropped, "dead letter")} dropped.`}
      done=${done}
    />
  `;
}

const Letters = ({ name, letters, session, reload }) => html`
  <ul class="results">
    ${letters.map(
      (letter) => html`
        <li key=${`${letter.partition}@${letter.offset}`}>
          <details>
            <summary>
              <span class="line">
                <${Time} value=${letter.time} />
                <${Badge} tone="error">${letter.reason}<//>
                <strong>${letter.type ? shortType(letter.type) : "unreadable"}</strong>
                <${Text}>${letter.aggregate_id}<//>
              </span>
              <div class="faint"><${Text}>${letter.message}<//></div>
            </summary>
            <${Tree} value=${letter.data ?? {}} redacted=${letter.redacted} />
            <p class="buttons">
              ${letter.aggregate_id && html`<a href=${linkToAggregate(name, letter.aggregate_id)}>Aggregate</a>`}
              ${letter.id && html`<a href=${linkTo(["trace"], { id: letter.id, since: "3650d" })}>Trace</a>`}
              <span class="faint">command ${letter.command}, dead letter ${letter.partition}@${letter.offset}</span>
              ${letter.id &&
              mayOperate(session) &&
              html`<${Retry} name=${name} filters=${{ id: letter.id }} done=${reload} label="Retry this command" />`}
            </p>
          </details>
        </li>
      `,
    )}
  </ul>
`;
