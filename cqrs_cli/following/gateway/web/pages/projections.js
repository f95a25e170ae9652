/** Projections: position and lag of each subscription, and the database's last error. */

import { get } from "../client.js";
import { html } from "../html.js";
import { CommandLine, Failure, Loaded, Nothing, PageHead, Panel } from "../parts/basics.js";
import { SubscriptionTable } from "../parts/subscription_table.js";
import { POLL_INTERVAL, useResource } from "../resource.js";

export const title = () => "Projections";

export function Page() {
  const resource = useResource((signal) => get("api/projections", {}, signal), [], { every: POLL_INTERVAL });
  return html`
    <${PageHead} title="Projections" />
    <${Loaded} resource=${resource}>
      ${({ database, error, projections }) => html`
        ${database
          ? html`<p class="faint">in <code>${database}</code></p>`
          : html`<p class="notice">The gateway knows no database. Start it with <${CommandLine}>cqrs serve --projections URL<//></p>`}
        ${error && html`<${Failure} error=${{ title: "The database does not answer", message: error }} />`}
        ${database && !error && !Object.keys(projections).length && html`<${Nothing}>The project has no projection.<//>`}
        ${Object.entries(projections).map(
          ([name, projection]) => html`
            <${Panel} key=${name} title=${name}><${SubscriptionTable} name=${name} partitions=${projection.partitions} /><//>
          `,
        )}
      `}
    <//>
  `;
}
