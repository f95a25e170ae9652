/** The partitions of an aggregate or process manager: rate, lag, age of the oldest command, owner, remarks. */

import { count, formatDuration, formatNumber, formatRate } from "../format.js";
import { html, useState } from "../html.js";
import { Badge, Panel } from "./basics.js";

const PIECE = 50;

/** `time`: of the poll, in ms; `silentRuns`: the seconds since the last heartbeat of silent runs. */
export function PartitionsTable({ name, group, time, silentRuns }) {
  const [limit, setLimit] = useState(PIECE);
  const rest = group.partitions.length - limit;
  const aside = html`
    <span class="faint">
      ${count(group.partitions.length, "partition")} · lag ${formatNumber(group.lag ?? 0)}
      ${group.standbys?.length > 0 && ` · standby ${group.standbys.join(", ")}`}
    </span>
  `;
  return html`
    <${Panel} title=${name} aside=${aside}>
      <div class="scroll" tabindex="0" role="group" aria-label=${`Partitions of ${name}`}>
        <table>
          <thead>
            <tr>
              <th>Partition</th>
              <th class="number">Decided/s</th>
              <th class="number">Lag</th>
              <th class="number">Oldest</th>
              <th class="number">Latency</th>
              <th>Owner</th>
              <th>Standby</th>
              <th>Remark</th>
            </tr>
          </thead>
          <tbody>
            ${group.partitions.slice(0, limit).map((partition) => html`<${Row} ...${{ partition, time, silentRuns }} />`)}
          </tbody>
        </table>
      </div>
      ${rest > 0 && html`<button class="quiet" onClick=${() => setLimit(Infinity)}>${count(rest, "more partition")}</button>`}
    <//>
  `;
}

function Row({ partition, time, silentRuns }) {
  const { rates, lag, oldest, latency_ms: latency, owner, remarks = [], standbys = [] } = partition;
  return html`
    <tr>
      <td>${partition.topic ? `${partition.topic} ${partition.partition}` : partition.partition}</td>
      <td class="number">${rates ? formatRate(rates.decided) : "–"}</td>
      <td class="number">${lag === null ? "–" : formatNumber(lag)}</td>
      <td class="number">${oldest ? formatDuration(Math.max(0, time - Date.parse(oldest)) / 1000) : "–"}</td>
      <td class="number">${latency === null || latency === undefined ? "–" : `${formatNumber(latency)} ms`}</td>
      <td class="owner"><${Owner} owner=${owner} silence=${silentRuns?.[owner?.run]} /></td>
      <td>${standbys.join(", ")}</td>
      <td>${remarks.map((remark) => html`<div>${remark}</div>`)}</td>
    </tr>
  `;
}

/** The run that owns a partition. `silence`: seconds since its last heartbeat, if it is silent: it may be dead. */
export function Owner({ owner, silence }) {
  if (!owner) return html`<span class="faint">none</span>`;
  if (owner.stopped) return html`<span class="faint"><code>${owner.run}</code> stopped</span>`;
  return html`
    <code>${owner.run}</code>
    ${silence > 0 && html` <${Badge} tone="warning">silent for ${formatDuration(silence)}<//>`}
  `;
}
