/** What needs an operator now, rates and lags of fifteen minutes, and every partition with its owner. */

import { get } from "../client.js";
import { html, useEffect, useState } from "../html.js";
import { mergeOverview } from "../overview_changes.js";
import { CommandLine, Failure, PageHead, Panel } from "../parts/basics.js";
import { OutcomesTable } from "../parts/outcomes_table.js";
import { PartitionsTable } from "../parts/partitions_table.js";
import { Plot } from "../parts/plot.js";
import { useResource, useStream } from "../resource.js";

const PERIOD = 900_000;

/** Plots draw at most so many lines: the series with the most commands. */
const LINES = 6;

export const title = () => "Overview";

export function Page() {
  const [overview, setOverview] = useState(null);
  const [points, setPoints] = useState([]);
  const first = useResource((signal) => get("api/overview", {}, signal), []);
  const [stream, setStream] = useState("api/overview?changes=true");
  const add = (further) => setPoints((old) => mergePoints(old, further));
  const catchUp = async () => add((await get("api/recent", { since_ms: points.at(-1)?.time_ms })).points);
  useStream(stream, {
    onEvent: (document, type) => {
      setOverview((old) => (type === "changes" ? mergeOverview(old, document) : document));
      if (document.point) add([document.point]);
    },
    onOpen: () => catchUp().catch(() => {}),
    onProblem: ({ status }) => status === 400 && setStream("api/overview"), // an earlier gateway has no parameter
  });
  useEffect(() => {
    if (first.data) setOverview((old) => old ?? first.data);
  }, [first.data]);
  const tableOf = (key, name, group) => html`
    <${PartitionsTable} ...${{ key, name, group }} time=${overview.time_ms} silentRuns=${overview.silent_runs} />
  `;
  if (!overview) return first.error ? html`<${Failure} error=${first.error} />` : html`<p class="faint">Loading …</p>`;
  return html`
    <${PageHead} title="Overview" />
    <${Problems} problems=${overview.problems} status=${overview.status} />
    ${points.length > 1 && html`<${Plots} points=${points} />`}
    ${overview.status &&
    html`
      <${OutcomesTable} outcomes=${overview.outcomes} reasons=${overview.reasons} />
      ${Object.entries(overview.status.aggregates).map(([name, group]) => tableOf(name, name, group))}
      ${Object.entries(overview.status.processes).map(([name, group]) => tableOf(`process ${name}`, `process manager ${name}`, group))}
    `}
  `;
}

/** Return the points of the last fifteen minutes by time. Missed points may arrive after newer points. */
function mergePoints(old, further) {
  const byTime = new Map([...old, ...further].map((point) => [point.time_ms, point]));
  const newest = Math.max(...byTime.keys());
  return [...byTime.values()].filter(({ time_ms }) => time_ms > newest - PERIOD).sort((left, right) => left.time_ms - right.time_ms);
}

/** Without commands that wait, stopped owners are no problem yet. */
const isOwned = ({ owner }) => owner && !owner.stopped;

function Problems({ problems, status }) {
  if (!problems.length) {
    const groups = Object.values(status?.aggregates ?? {});
    const isRunning = groups.some(({ partitions }) => partitions.some(isOwned));
    return isRunning
      ? html`<p class="calm-line">Nothing needs an operator now.</p>`
      : html`<p class="notice warning">No command waits, but no run is active: new commands will wait.</p>`;
  }
  return html`
    <${Panel} title="What is wrong now">
      <ul class="problems">
        ${problems.map(
          ({ subject, text, command }) => html`
            <li>
              <span>${subject && html`<strong><bdi>${subject}</bdi>: </strong>`}${text}</span>
              ${command && html`<${CommandLine}>${command}<//>`}
            </li>
          `,
        )}
      </ul>
    <//>
  `;
}

function Plots({ points }) {
  const times = points.map((point) => point.time_ms);
  const names = Object.keys(points.at(-1).series);
  const linesOf = (member) =>
    names.slice(0, LINES).map((name) => ({ name, values: points.map(({ series }) => series[name]?.[member] ?? null) }));
  return html`
    <${Panel} title="The last fifteen minutes">
      <div class="columns">
        <${Plot} title="Decided per second" times=${times} lines=${linesOf("decided")} />
        <${Plot} title="Lag: commands that wait" times=${times} lines=${linesOf("lag")} />
      </div>
    <//>
  `;
}
