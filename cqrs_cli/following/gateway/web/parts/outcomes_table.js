/** The number of outcomes by aggregate and status, and the reasons of the newest rejections and failures. */

import { formatNumber } from "../format.js";
import { html } from "../html.js";
import { Badge, Panel } from "./basics.js";

const STATUSES = ["accepted", "unchanged", "rejected", "failed", "deferred", "duplicate"];

export function OutcomesTable({ outcomes, reasons }) {
  if (!Object.keys(outcomes).length) return null;
  return html`
    <${Panel} title="Outcomes" aside=${html`<span class="faint">since the owners started; reasons: 15 minutes</span>`}>
      <div class="scroll" tabindex="0" role="group" aria-label="Outcomes by status">
        <table>
          <thead>
            <tr>
              <th>Aggregate</th>
              ${STATUSES.map((status) => html`<th class="number">${status}</th>`)}
              <th>Reasons</th>
            </tr>
          </thead>
          <tbody>
            ${Object.entries(outcomes).map(
              ([name, counts]) => html`
                <tr key=${name}>
                  <td><a href=${`#/browse/${encodeURIComponent(name)}`}>${name}</a></td>
                  ${STATUSES.map((status) => html`<td class="number">${formatNumber(counts[status] ?? 0)}</td>`)}
                  <td><${Reasons} counts=${reasons[name] ?? {}} /></td>
                </tr>
              `,
            )}
          </tbody>
        </table>
      </div>
    <//>
  `;
}

const Reasons = ({ counts }) => html`
  <span class="chips">
    ${Object.entries(counts)
      .sort(([, left], [, right]) => right - left)
      .slice(0, 6)
      .map(([reason, number]) => html`<${Badge} tone="warning">${reason} ${formatNumber(number)}<//>`)}
  </span>
`;
