/** Aggregates: the types, or the ids of a type (`#/browse/order?prefix=o-`). */

import { get, pathOf } from "../client.js";
import { count, formatNumber } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Badge, Failure, Loaded, Nothing, PageHead, Panel, Text } from "../parts/basics.js";
import { POLL_INTERVAL, useResource, useSettled } from "../resource.js";
import { maySend } from "../rights.js";
import { linkTo, linkToAggregate, navigate } from "../router.js";

const PAGE_SIZE = 100;

export const title = ([name]) => name ?? "Aggregates";

export const Page = ({ parts, query, session }) =>
  parts[0] ? html`<${Ids} name=${parts[0]} prefix=${query.prefix ?? ""} session=${session} />` : html`<${Types} session=${session} />`;

function Types({ session }) {
  const fresh = useResource((signal) => get("api/session", {}, signal), [], { every: POLL_INTERVAL });
  const types = Object.entries((fresh.data ?? session).aggregates);
  return html`
    <${PageHead} title="Aggregates" />
    <ul class="cards">
      ${types.map(
        ([name, type]) => html`
          <li key=${name}>
            <a href=${linkTo(["browse", name])}>
              <strong>${name}</strong>
              <span>${count(type.aggregates, "aggregate")} in ${count(type.partitions, "partition")}</span>
              ${!type.ready && html`<${Badge}>catching up<//>`}
            </a>
          </li>
        `,
      )}
    </ul>
  `;
}

function Ids({ name, prefix, session }) {
  const [text, setText] = useState(prefix);
  const settled = useSettled(text, 200);
  useEffect(() => navigate(linkTo(["browse", name], { prefix: settled }), { replace: true }), [settled]);
  const first = useResource(
    (signal) => get(pathOf(name), { prefix: settled, limit: PAGE_SIZE }, signal),
    [name, settled],
  );
  return html`
    <${PageHead} title=${name}>
      ${maySend(session) && html`<a class="button" href=${linkTo(["send", name])}>Send a command</a>`}
    <//>
    <label class="filter">
      Ids that begin with
      <input type="search" value=${text} onInput=${(event) => setText(event.currentTarget.value)} />
    </label>
    <${Loaded} resource=${first}>
      ${(page) => html`<${IdList} key=${settled} name=${name} prefix=${settled} first=${page} />`}
    <//>
  `;
}

function IdList({ name, prefix, first }) {
  const [further, setFurther] = useState({ aggregates: [], next: first.next, error: null });
  const aggregates = [...first.aggregates, ...further.aggregates];
  const more = async () => {
    try {
      const page = await get(pathOf(name), { prefix, after: further.next, limit: PAGE_SIZE });
      setFurther({ aggregates: [...further.aggregates, ...page.aggregates], next: page.next, error: null });
    } catch (error) {
      setFurther({ ...further, error });
    }
  };
  if (!aggregates.length) return html`<${Nothing}>There is no ${name} with such an id.<//>`;
  return html`
    <${Panel} title="Ids">
      <table>
        <thead><tr><th>Id</th><th class="number">Version</th></tr></thead>
        <tbody>
          ${aggregates.map(
            ({ id, version }) => html`
              <tr key=${id}>
                <td><a href=${linkToAggregate(name, id)}><${Text}>${id}<//></a></td>
                <td class="number">${formatNumber(version)}</td>
              </tr>
            `,
          )}
        </tbody>
      </table>
    <//>
    ${further.error && html`<${Failure} error=${further.error} />`}
    ${further.next && html`<button onClick=${more}>More</button>`}
  `;
}
