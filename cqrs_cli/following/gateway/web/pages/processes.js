/** Process managers: position, lag, and events at which they stopped. */

import { get } from "../client.js";
import { shortType } from "../format.js";
import { html } from "../html.js";
import { ActionButton } from "../parts/action_button.js";
import { Badge, CommandLine, Loaded, Nothing, PageHead, Panel, Text } from "../parts/basics.js";
import { SubscriptionTable } from "../parts/subscription_table.js";
import { POLL_INTERVAL, useResource } from "../resource.js";
import { mayOperate } from "../rights.js";

export const title = () => "Process managers";

export function Page({ session }) {
  const resource = useResource((signal) => get("api/processes", {}, signal), [], { every: POLL_INTERVAL });
  return html`
    <${PageHead} title="Process managers" />
    <${Loaded} resource=${resource}>
      ${({ processes, missing }) => html`
        ${!Object.keys(processes).length && !missing.length && html`<${Nothing}>The project has no process manager.<//>`}
        ${missing.map((name) => html`<p class="notice warning">${name} has no topics yet.</p>`)}
        ${Object.entries(processes).map(
          ([name, process]) => html`
            <${Panel}
              key=${name}
              title=${name}
              aside=${html`<span class="faint">
                subscribes to ${(process.sources ?? []).join(", ")} ${process.stopped && html`<${Badge} tone="error">stopped<//>`}
              </span>`}
            >
              <${SubscriptionTable} name=${name} partitions=${process.partitions} />
              ${process.partitions
                .filter(({ remedy }) => remedy)
                .map(
                  (partition) => html`
                    <p>${partition.remarks?.join(" ")} <${CommandLine}>${partition.remedy}<//></p>
                    ${mayOperate(session) && html`<${Skip} ...${{ name, partition }} done=${resource.reload} />`}
                  `,
                )}
            <//>
          `,
        )}
      `}
    <//>
  `;
}

const Skip = ({ name, partition: { aggregate, partition, stopped_at }, done }) => html`
  <${ActionButton}
    name="Skip the event"
    tone="danger"
    path="api/processes/skip"
    selection=${{ process: name, aggregate, partition, offset: stopped_at }}
    describe=${({ event, note, command }) => html`
      ${name} will never react to ${event ? html`${shortType(event.type)} of <${Text}>${event.subject}<//>` : "the unreadable event"};${" "}
      ${note}. ${command && html`<${CommandLine}>${command}<//>`}
    `}
    report=${({ position }) => `Skipped: the next event is at ${position}.`}
    done=${done}
  />
`;
