/** The partitions that a process manager or a projection reads. */

import { formatNumber } from "../format.js";
import { html } from "../html.js";
import { Badge } from "./basics.js";
import { Owner } from "./partitions_table.js";

const number = (value) => (value === null || value === undefined ? "–" : formatNumber(value));

export const SubscriptionTable = ({ name, partitions }) => html`
  <div class="scroll" tabindex="0" role="group" aria-label=${`Partitions of ${name}`}>
    <table>
      <thead>
        <tr><th>Topic</th><th class="number">Partition</th><th class="number">Position</th><th class="number">End</th><th class="number">Lag</th><th>Owner</th><th>Remark</th></tr>
      </thead>
      <tbody>
        ${partitions.map(
          (partition) => html`
            <tr key=${`${partition.topic} ${partition.partition}`}>
              <td>${partition.topic}</td>
              <td class="number">${partition.partition}</td>
              <td class="number">${number(partition.position)}</td>
              <td class="number">${number(partition.end)}</td>
              <td class="number">${number(partition.lag)}</td>
              <td class="owner">${typeof partition.owner === "string" ? html`<code>${partition.owner}</code>` : html`<${Owner} owner=${partition.owner} silence=${partition.owner?.silent_seconds} />`}</td>
              <td>
                ${typeof partition.stopped_at === "number" && html`<${Badge} tone="error">stopped at ${partition.stopped_at}<//> `}
                ${(partition.remarks ?? []).map((remark) => html`<div>${remark}</div>`)}
              </td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  </div>
`;
