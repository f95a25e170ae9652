/** What a command would do (dry run), and its outcome. */

import { changedPaths, differencesOf } from "../differences.js";
import { count, formatNumber, shortType } from "../format.js";
import { html } from "../html.js";
import { linkTo, linkToAggregate } from "../router.js";
import { Why } from "./aggregate_commands.js";
import { Badge, Text, Time } from "./basics.js";
import { Tree } from "./tree.js";

/** `before`: the aggregate before the command, whose state is compared. */
export function DryRun({ result, before }) {
  const { outcome, events, state, undecided } = result;
  const changes = changedPaths(differencesOf(before.state, state));
  return html`
    <p class="verdict">would be <${Badge}>${outcome.status}<//> <${Why} outcome=${outcome} /></p>
    ${undecided > 0 &&
    html`<p class="notice">${count(undecided, "command")} before this one without an outcome: the result may differ.</p>`}
    ${events.map(
      (event) => html`
        <h3>${shortType(event.type)}</h3>
        <${Tree} value=${event.data ?? {}} redacted=${event.redacted} />
      `,
    )}
    ${events.length > 0 && html`<h3>State afterwards</h3><${Tree} value=${state} changes=${changes} redacted=${result.redacted} />`}
  `;
}

export const Outcome = ({ name, id, outcome, again }) => html`
  <p class="verdict"><${Badge}>${outcome.status}<//> <${Why} outcome=${outcome} /></p>
  <dl>
    ${outcome.events > 0 && html`<dt>events</dt><dd>${formatNumber(outcome.events)}</dd>`}
    ${outcome.due && html`<dt>due</dt><dd><${Time} value=${outcome.due} /></dd>`}
    <dt>command id</dt>
    <dd><a href=${linkTo(["trace"], { id: outcome.command_id })}><${Text}>${outcome.command_id}<//></a></dd>
  </dl>
  <p class="buttons">
    <a class="button" href=${linkToAggregate(name, id)}>Show the aggregate</a>
    <button onClick=${again}>Another command</button>
  </p>
`;
