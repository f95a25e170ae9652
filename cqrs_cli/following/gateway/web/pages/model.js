/** The commands, events and state of the aggregates, from their classes (`#/model/order`). */

import { get } from "../client.js";
import { count, shortType } from "../format.js";
import { html } from "../html.js";
import { formatJson } from "../json.js";
import { AggregateChoice } from "../parts/aggregate_choice.js";
import { Loaded, PageHead, Panel, Text } from "../parts/basics.js";
import { useResource } from "../resource.js";
import { linkTo, navigate } from "../router.js";
import { resolve } from "../schemas.js";

export const title = ([name]) => (name ? `Model of ${name}` : "Model");

export function Page({ parts, session }) {
  const name = parts[0] in session.aggregates ? parts[0] : Object.keys(session.aggregates)[0];
  const resource = useResource((signal) => get("api/model", {}, signal), []);
  return html`
    <${PageHead} title="Model" />
    <div class="filters">
      <${AggregateChoice} session=${session} name=${name} choose=${(next) => navigate(linkTo(["model", next]))} />
    </div>
    <${Loaded} resource=${resource}>${({ aggregates }) => html`<${Model} name=${name} schema=${aggregates[name]} />`}<//>
  `;
}

const Model = ({ name, schema }) => html`
  <pre class="panel">${schema.description}</pre>
  <div class="columns">
    <${Messages} title="Commands" ...${{ schema }} messages=${schema.commands} link=${(type) => linkTo(["send", name], { command: type })} />
    <${Messages} title="Events" ...${{ schema }} messages=${schema.events} />
  </div>
  <${Panel} title="State"><${FieldTable} schema=${resolve(schema.state, schema)} root=${schema} /><//>
  <details class="panel fold">
    <summary>JSON Schema</summary>
    <pre>${formatJson(schema, 2)}</pre>
  </details>
`;

const Messages = ({ title, schema, messages, link }) => html`
  <${Panel} title=${title} aside=${html`<span class="faint">${count(Object.keys(messages).length, "type")}</span>`}>
    ${Object.entries(messages).map(([type, reference]) => {
      const message = resolve(reference, schema);
      const name = shortType(type);
      return html`
        <section key=${type}>
          <h3>${link ? html`<a href=${link(name)}>${name}</a>` : name}</h3>
          ${message.description && html`<p class="faint">${message.description}</p>`}
          <${FieldTable} schema=${message} root=${schema} />
        </section>
      `;
    })}
  <//>
`;

function FieldTable({ schema, root }) {
  const fields = Object.entries(schema.properties ?? {});
  if (!fields.length) return html`<p class="faint">no fields</p>`;
  return html`
    <table>
      <tbody>
        ${fields.map(
          ([name, field]) => html`
            <tr key=${name}>
              <td><code><${Text}>${name}<//></code></td>
              <td><code>${typeName(field, root)}</code></td>
              <td class="faint">
                ${(schema.required ?? []).includes(name) ? "required" : "default" in field && `default ${formatJson(field.default)}`}
              </td>
            </tr>
          `,
        )}
      </tbody>
    </table>
  `;
}

/** Return a schema's type in a word or two: `list of integer`, `text or null`. */
function typeName(field, root, depth = 0) {
  if (field.$ref) return depth > 3 ? "…" : resolve(field, root).title ?? typeName(resolve(field, root), root, depth + 1);
  if (field.enum) return field.enum.map((value) => formatJson(value)).join(" | ");
  const choices = field.anyOf ?? field.oneOf;
  if (choices) return choices.map((choice) => typeName(choice, root, depth + 1)).join(" or ");
  if (field.type === "array") return `list of ${typeName(field.items ?? {}, root, depth + 1)}`;
  if (field.type === "object" && typeof field.additionalProperties === "object") {
    return `map to ${typeName(field.additionalProperties, root, depth + 1)}`;
  }
  return [field.type ?? "any", field.format].filter(Boolean).join(" ");
}
