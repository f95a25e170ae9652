/** The newest commands of an aggregate with their outcomes, and the deferred commands that wait. */

import { get } from "../client.js";
import { count, shortType } from "../format.js";
import { html, useState } from "../html.js";
import { POLL_INTERVAL, useResource } from "../resource.js";
import { linkTo } from "../router.js";
import { Badge, Loaded, Nothing, Panel, Text, Time } from "./basics.js";
import { PeriodChoice } from "./search_form.js";
import { BriefFields } from "./tree.js";

const LIMIT = 50;

/** A new `version` of the aggregate loads the commands again. */
export function CommandsPanel({ name, id, version }) {
  const [since, setSince] = useState("7d");
  const load = (signal) => get("api/commands", { aggregate: name, id, since, limit: LIMIT }, signal);
  const resource = useResource(load, [name, id, since], { every: POLL_INTERVAL, after: version });
  const period = html`<${PeriodChoice} since=${since} choose=${setSince} />`;
  return html`
    <${Panel} title="Commands" aside=${period}>
      <${Loaded} resource=${resource}>
        ${({ commands, deferred, waiting, limited }) => html`
          ${waiting > 0 && html`<p class="notice">${count(waiting, "command")} without an outcome yet.</p>`}
          ${commands.length
            ? html`<${Commands} commands=${commands} />`
            : html`<${Nothing}>No command in this time.<//>`}
          ${limited && html`<p class="faint">The newest ${LIMIT} are shown.</p>`}
          ${deferred.length > 0 && html`<h3>Deferred</h3><${Deferred} name=${name} deferred=${deferred} />`}
        `}
      <//>
    <//>
  `;
}

const Commands = ({ commands }) => html`
  <table class="stacking">
    <thead><tr><th>Time</th><th>Command</th><th>Outcome</th><th>Why</th></tr></thead>
    <tbody>
      ${commands.map(
        ({ id, time, type, data, redacted, outcome, actor }) => html`
          <tr key=${id}>
            <td><${Time} value=${time} /></td>
            <td>
              <a href=${linkTo(["trace"], { id })}>${shortType(type)}</a> <${BriefFields} data=${data} redacted=${redacted} />
              ${actor && html` <span class="faint">by <${Text}>${actor}<//></span>`}
            </td>
            <td><${Badge}>${outcome?.status ?? "waiting"}<//></td>
            <td><${Why} outcome=${outcome} /></td>
          </tr>
        `,
      )}
    </tbody>
  </table>
`;

/** The reason of an outcome, its code and message; the version of an accepted command. */
export function Why({ outcome }) {
  if (!outcome) return null;
  if (!outcome.reason) return outcome.version ? html`<span class="faint">version ${outcome.version}</span>` : null;
  return html`
    <span class="why"><strong>${outcome.code ?? outcome.reason}</strong> <${Text}>${outcome.message}<//></span>
  `;
}

const Deferred = ({ name, deferred }) => html`
  <table class="stacking">
    <thead><tr><th>Due</th><th>Command</th><th>State</th></tr></thead>
    <tbody>
      ${deferred.map(
        (entry) => html`
          <tr key=${entry.id}>
            <td><${Time} value=${entry.due} /></td>
            <td>
              <a href=${linkTo(["deferred", name], { id: entry.id })}>${shortType(entry.command?.type ?? "command")}</a>
              ${" "}<${BriefFields} data=${entry.command?.data} redacted=${entry.redacted} />
            </td>
            <td><${Badge}>${entry.state}<//></td>
          </tr>
        `,
      )}
    </tbody>
  </table>
`;
