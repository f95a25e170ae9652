/** Sends a command: a form, a dry run, then the outcome (`#/send/order/o-42?command=Ship`). */

import { get, pathOf, post, Problem } from "../client.js";
import { html, useEffect, useState } from "../html.js";
import { Badge, Failure, Loaded, Nothing, PageHead, Panel } from "../parts/basics.js";
import { ExpectedVersion, headersOf, newCommandId } from "../parts/command_headers.js";
import { DryRun, Outcome } from "../parts/command_results.js";
import { Fields, JsonField } from "../parts/schema_form.js";
import { useResource, useSettled, useStream } from "../resource.js";
import { mayErase, maySend } from "../rights.js";
import { linkTo, navigate } from "../router.js";
import { commandsOf, firstValue } from "../schemas.js";

export const title = ([name, id]) => (name ? `Send a command to ${id ?? name}` : "Send a command");

export function Page({ parts: [givenName, givenId], query, session }) {
  const names = Object.keys(session.aggregates);
  const name = names.includes(givenName) ? givenName : names[0];
  const [id, setId] = useState(givenId ?? "");
  const api = useResource((signal) => get("openapi.json", {}, signal), []);
  const go = (nextName, nextId, command) =>
    navigate(linkTo(nextId ? ["send", nextName, nextId] : ["send", nextName], { command }), { replace: true });
  if (!maySend(session)) {
    const why = session.read_only ? "This gateway is read-only." : "Your token has no right to send.";
    return html`<${PageHead} title="Send a command" /><${Nothing}>${why}<//>`;
  }
  return html`
    <${PageHead} title="Send a command" />
    <${Loaded} resource=${api}>
      ${(document) => {
        const { "cqrs.Erase": erase, ...others } = commandsOf(document, name);
        const commands = erase && mayErase(session) ? { ...others, "cqrs.Erase": erase } : others;
        const command = query.command in commands ? query.command : Object.keys(commands)[0];
        return html`
          <div class="target">
            <label>
              Aggregate
              <select value=${name} onChange=${(event) => go(event.currentTarget.value, id)}>
                ${names.map((known) => html`<option>${known}</option>`)}
              </select>
            </label>
            <label>
              Id
              <input
                value=${id}
                dir="auto"
                autocomplete="off"
                required
                onInput=${(event) => setId(event.currentTarget.value)}
              />
            </label>
            <label>
              Command
              <select value=${command} onChange=${(event) => go(name, id, event.currentTarget.value)}>
                ${Object.keys(commands).map((known) => html`<option>${known}</option>`)}
              </select>
            </label>
          </div>
          ${command
            ? html`<${Command} key=${`${name} ${command}`} ...${{ name, id, command, api: document, ...commands[command] }} />`
            : html`<${Nothing}>${name} accepts no command.<//>`}
        `;
      }}
    <//>
  `;
}

function Command({ name, id, command, schema, description, api }) {
  const [data, setData] = useState(() => firstValue(schema, api));
  const [isText, setText] = useState(false);
  const [headers, setHeaders] = useState({ expected: "any", version: "", correlation: "" });
  const [commandId, setCommandId] = useState(newCommandId);
  const [result, setResult] = useState(null); // {busy} | {dryRun, before} | {outcome} | {error}
  const settledId = useSettled(id, 250);
  const present = useResource((signal) => loadState(name, settledId, {}, signal), [name, settledId]);
  useStream(present.data && pathOf(name, settledId), { onEvent: present.reload, onOpen: present.reload });

  const edit = (change) => (value) => {
    change(value);
    setCommandId(newCommandId()); // another command
    setResult(null);
  };
  const request = (query) => post(pathOf(name, id, command), data, { query, headers: headersOf(headers, commandId) });
  const run = async (act) => {
    setResult({ busy: true });
    try {
      setResult(await act());
    } catch (error) {
      const outcome = error.body?.outcome;
      setResult(outcome ? { outcome } : { error });
    }
  };
  const dryRun = (event) => {
    event.preventDefault();
    run(async () => {
      const simulated = await request({ dry_run: "true" });
      const version = simulated.version - simulated.events.length;
      return { dryRun: simulated, before: await loadState(name, id, { version }) };
    });
  };
  const send = () => run(async () => ({ outcome: await request() }));
  const again = () => {
    setCommandId(newCommandId());
    setResult(null);
  };
  useEffect(again, [id]); // a dry run is of one aggregate
  return html`
    ${description && html`<p>${description}</p>`}
    <div class="columns">
      <form class="panel" aria-label=${command} onSubmit=${dryRun} disabled=${result?.busy}>
        <header>
          <h2>${command}</h2>
          <label class="check">
            <input type="checkbox" checked=${isText} onChange=${(event) => setText(event.currentTarget.checked)} /> as JSON
          </label>
        </header>
        ${isText
          ? html`<${JsonField} name="Data" rows=${8} value=${data} change=${edit(setData)} />`
          : html`<${Fields} ...${{ schema, root: api, value: data, change: edit(setData) }} />`}
        <${ExpectedVersion} headers=${headers} change=${edit(setHeaders)} present=${present.data} />
        <div class="buttons">
          <button class=${result?.dryRun ? "" : "primary"} disabled=${!id || result?.busy}>Dry run</button>
          ${result?.dryRun && html`<button type="button" class="primary" onClick=${send}>Send ${command}</button>`}
        </div>
      </form>
      <${Panel} title="Result" aria-live="polite" aside=${result?.busy && html`<${Badge}>waiting<//>`}>
        ${!result && html`<${Nothing}>The dry run shows events and state before the command is sent.<//>`}
        ${result?.dryRun && html`<${DryRun} result=${result.dryRun} before=${result.before} />`}
        ${result?.outcome && html`<${Outcome} ...${{ name, id, outcome: result.outcome, again }} />`}
        ${result?.error && html`<${SendFailure} error=${result.error} send=${send} />`}
      <//>
    </div>
  `;
}

/** Return `{version, state}` of the aggregate, at present or at a version; version 0 before its first event. */
async function loadState(name, id, query, signal) {
  if (!id) return null;
  try {
    return await get(pathOf(name, id), query, signal);
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return { version: 0, state: {} };
    throw error;
  }
}

/** A command without an outcome may still be decided; with its id it is decided once, however often it is sent. */
const SendFailure = ({ error, send }) => html`
  <${Failure} error=${error} />
  ${(error.status ?? 503) >= 503 &&
  html`<p>Sending again is safe: the command keeps its id. <button onClick=${send}>Send again</button></p>`}
`;
