/** Searches ids, commands, correlations and texts in all aggregates (`#/search?q=o-42&since=7d`). */

import { send, Unreachable } from "../client.js";
import { count, formatNumber, shortType } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { parseJson } from "../json.js";
import { Badge, Failure, Nothing, PageHead, Panel, Text, Time } from "../parts/basics.js";
import { SearchForm, useSearchText } from "../parts/search_form.js";
import { BriefFields } from "../parts/tree.js";
import { useTokenChanges } from "../resource.js";
import { linkTo, linkToAggregate, navigate } from "../router.js";
import { readEvents } from "../streams.js";

const KINDS = { commands: "command", events: "event", outcomes: "outcome", "dead-letters": "dead letter", drops: "drop" };
const EMPTY = { aggregates: [], records: [], progress: null, end: null, error: null };

export const title = (parts, { q }) => (q ? `Search ${q}` : "Search");

export function Page({ query, session }) {
  const { q = "", since = "1d", aggregate = "", limit = "100" } = query;
  const { text, write, submit, repeats } = useSearchText(q, () => go({}));
  const results = useSearch({ q, since, aggregate, limit }, repeats);
  const go = (change) => navigate(linkTo(["search"], { q: text.trim(), since, aggregate, limit, ...change }));
  return html`
    <${PageHead} title="Search" />
    <${SearchForm}
      label="Id, command, correlation or text in data"
      button="Search"
      ...${{ text, write, submit, since }}
      choose=${(period) => go({ since: period })}
    >
      <label>
        Aggregate
        <select value=${aggregate} onChange=${(event) => go({ aggregate: event.currentTarget.value })}>
          <option value="">all</option>
          ${Object.keys(session.aggregates).map((name) => html`<option>${name}</option>`)}
        </select>
      </label>
    <//>
    ${q
      ? html`<${Results} results=${results} more=${() => go({ limit: "1000" })} />`
      : html`<${Nothing}>Finds aggregates by the beginning of their id, and records by an id or by a text in their data.<//>`}
  `;
}

/** Return what the search has found so far. Another query, another number of repeats or a new token cancels it. */
function useSearch(query, repeats) {
  const [results, setResults] = useState(EMPTY);
  const key = JSON.stringify([query, repeats, useTokenChanges()]);
  useEffect(() => {
    if (!query.q) return undefined;
    const controller = new AbortController();
    setResults(EMPTY);
    collect(query, controller.signal, setResults).catch((error) => {
      if (!controller.signal.aborted) setResults((old) => ({ ...old, error }));
    });
    return () => controller.abort();
  }, [key]);
  return results;
}

async function collect(query, signal, setResults) {
  const response = await send("api/search", { query, headers: { Accept: "text/event-stream" }, signal });
  const found = { ...EMPTY, aggregates: [], records: [] };
  let drawnAt = 0;
  for await (const { type, data } of readEvents(response.body)) {
    const document = parseJson(data);
    if (type === "aggregate") found.aggregates.push(document);
    else if (type === "record") found.records.push(document);
    else found[type] = document;
    if (type === "end" || performance.now() - drawnAt > 100) {
      drawnAt = performance.now();
      setResults({ ...found, aggregates: [...found.aggregates], records: [...found.records] });
    }
  }
  if (!found.end) throw new Unreachable();
}

function Results({ results, more }) {
  const { aggregates, records, progress, end, error } = results;
  const isEmpty = end && !aggregates.length && !records.length;
  return html`
    ${error && html`<${Failure} error=${error} />`}
    ${end?.error && html`<${Failure} error=${{ title: "The search ended early", message: end.error }} />`}
    <p role="status" class="faint">
      ${error ? `${count(records.length, "match", "matches")} before the error` : end
        ? `${count(end.matches, "match", "matches")} in ${count(end.read, "record")}`
        : html`<progress max=${progress?.total ?? 1} value=${progress?.read ?? 0} aria-label="Progress"></progress>${" "}
            ${formatNumber(progress?.read ?? 0)} of ${formatNumber(progress?.total ?? 0)} records`}
      ${end?.limited && html` · only the first matches are shown <button class="quiet" onClick=${more}>Show more</button>`}
    </p>
    ${isEmpty && html`<${Nothing}>Nothing found. Choose a longer time to search older records.<//>`}
    ${aggregates.length > 0 && html`<${Aggregates} aggregates=${aggregates} />`}
    ${records.length > 0 && html`<${Records} records=${records} />`}
  `;
}

const Aggregates = ({ aggregates }) => html`
  <${Panel} title="Aggregates">
    <ul class="links">
      ${aggregates.map(
        ({ aggregate, id, version }) => html`
          <li>
            <span class="type">${aggregate}</span> <a href=${linkToAggregate(aggregate, id)}><${Text}>${id}<//></a>
            <span class="faint"> version ${formatNumber(version)}</span>
          </li>
        `,
      )}
    </ul>
  <//>
`;

const Records = ({ records }) => html`
  <${Panel} title="Records">
    <ul class="results">
      ${records.map(
        (record) => html`
          <li key=${`${record.kind} ${record.aggregate} ${record.partition} ${record.offset}`}>
            <div class="line">
              <${Badge}>${KINDS[record.kind]}<//>
              ${record.kind === "drops" ? html`<${Drop} record=${record} />` : html`<${Message} record=${record} />`}
            </div>
            <div><${BriefFields} data=${record.data} redacted=${record.redacted} /></div>
          </li>
        `,
      )}
    </ul>
  <//>
`;

const Message = ({ record }) => html`
  <strong>${shortType(record.type ?? "")}</strong>
  <a href=${linkToAggregate(record.aggregate, record.subject ?? "")}>
    <span class="type">${record.aggregate}</span> <${Text}>${record.subject}<//>
  </a>
  <${Time} value=${record.time} />
  <a href=${linkTo(["trace"], { id: record.correlationid ?? record.id })}>trace</a>
`;

/** The record of a drop; it concerns all dead letters of a partition before a time. */
const Drop = ({ record }) => html`
  <strong>${count(record.data.letters, "dead letter")} dropped</strong>
  ${record.data.actor && html`by <${Text}>${record.data.actor}<//>`}
  <a href=${linkTo(["dead-letters", record.aggregate])}><span class="type">${record.aggregate}</span></a>
  <${Time} value=${record.time} />
`;
