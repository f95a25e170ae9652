/** Form fields for a JSON Schema. The value of a form is a JSON value; `undefined` is a value that is not given. */

import { html, useEffect, useId, useRef, useState } from "../html.js";
import { formatJson, parseJson } from "../json.js";
import { fieldOf, firstValue, resolve, withoutNull } from "../schemas.js";

/** The fields of an object. `root`: the document with the definitions of the schema. */
export function Fields({ schema: given, root, value, change }) {
  const schema = resolve(given, root);
  const required = schema.required ?? [];
  const names = Object.keys(schema.properties ?? {});
  const set = (name, next) => {
    const { [name]: old, ...others } = value ?? {};
    const members = next === undefined ? others : { ...value, [name]: next };
    change(Object.fromEntries(names.filter((known) => known in members).map((known) => [known, members[known]])));
  };
  return names.map(
    (name) => html`
      <${Member}
        key=${name}
        ...${{ name, root }}
        schema=${schema.properties[name]}
        isRequired=${required.includes(name)}
        value=${value?.[name]}
        change=${(next) => set(name, next)}
      />
    `,
  );
}

/** A field of an object. An optional field has a check box: unchecked, the command does not contain the field. */
function Member({ name, schema, root, isRequired, value, change }) {
  const { schema: shown } = withoutNull(schema, root);
  const id = useId();
  const isGiven = isRequired || value !== undefined;
  const toggle = (event) => change(event.currentTarget.checked ? firstValue(schema, root) ?? null : undefined);
  const isGroup = ["fields", "list", "map"].includes(fieldOf(shown));
  const hint = [shown.description, shown.format].filter(Boolean).join(" · ");
  const optional =
    !isRequired &&
    html`<label class="check faint"><input type="checkbox" checked=${isGiven} onChange=${toggle} /> set ${name}</label>`;
  const field = isGiven
    ? html`<${Field} ...${{ id, schema, root, value, change, name }} />`
    : "default" in shown && html`<p class="faint">by default ${formatJson(shown.default)}</p>`;
  if (isGroup) {
    return html`<fieldset><legend>${name}</legend>${hint && html`<p class="faint">${hint}</p>`}${optional} ${field}</fieldset>`;
  }
  return html`
    <div class="field-row">
      <label for=${isGiven ? id : undefined}>${name}</label>
      <div>${optional} ${field} ${hint && html`<p class="faint">${hint}</p>`}</div>
    </div>
  `;
}

function Field({ schema: given, value, change, root, ...rest }) {
  const { schema, nullable } = withoutNull(given, root);
  const Kind = KINDS[fieldOf(schema)];
  if (!nullable) return html`<${Kind} ...${rest} ...${{ schema, root, value, change }} />`;
  const toggle = (event) => change(event.currentTarget.checked ? null : firstValue({ ...schema, default: undefined }, root) ?? "");
  return html`
    <label class="check faint"><input type="checkbox" checked=${value === null} onChange=${toggle} /> null</label>
    ${value !== null && html`<${Kind} ...${rest} ...${{ schema, root, value, change }} />`}
  `;
}

const Text = ({ id, name, value, change }) => html`
  <textarea id=${id} aria-label=${name} rows="1" dir="auto" value=${value ?? ""} onInput=${(event) => change(event.currentTarget.value)}></textarea>
`;

const Truth = ({ id, name, value, change }) => html`
  <select id=${id} aria-label=${name} value=${String(value ?? false)} onChange=${(event) => change(event.currentTarget.value === "true")}>
    <option value="false">false</option>
    <option value="true">true</option>
  </select>
`;

function Choice({ id, name, schema, value, change }) {
  const choices = schema.enum ?? [schema.const];
  return html`
    <select id=${id} aria-label=${name} value=${choices.indexOf(value)} onChange=${(event) => change(choices[event.currentTarget.value])}>
      ${choices.map((choice, index) => html`<option value=${index}>${String(choice)}</option>`)}
    </select>
  `;
}

/** A field whose text is parsed; the text stays while it is invalid. */
function Parsed({ id, name, value, change, parse, rows, problem, mode }) {
  const [text, setText] = useState(value === undefined ? "" : formatJson(value, 2));
  const field = useRef(null);
  const check = () => field.current.setCustomValidity(parse(text) === undefined ? problem : "");
  useEffect(check, [text]);
  const write = (event) => {
    setText(event.currentTarget.value);
    change(parse(event.currentTarget.value));
  };
  const attributes = { id, ref: field, value: text, onInput: write, "aria-label": name, required: true, spellcheck: false };
  return rows
    ? html`<textarea class="code" rows=${rows} ...${attributes}></textarea>`
    : html`<input inputmode=${mode} autocomplete="off" ...${attributes} />`;
}

function parseNumber(text, isWhole) {
  const pattern = isWhole ? /^-?(0|[1-9]\d*)$/ : /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
  return pattern.test(text.trim()) ? parseJson(text.trim()) : undefined;
}

const NumberField = ({ schema, ...rest }) => html`
  <${Parsed}
    ...${rest}
    mode=${schema.type === "integer" ? "numeric" : "decimal"}
    parse=${(text) => parseNumber(text, schema.type === "integer")}
    problem=${schema.type === "integer" ? "a whole number, such as 42" : "a number, such as 4.2"}
  />
`;

function parseDocument(text) {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Any JSON value, as text. */
export const JsonField = (properties) => html`
  <${Parsed} ...${properties} rows=${properties.rows ?? 3} parse=${parseDocument} problem="not valid JSON" />
`;

const Group = ({ schema, root, value, change }) => html`<${Fields} ...${{ schema, root, value, change }} />`;

function List({ name, schema, root, value, change }) {
  const items = value ?? [];
  const replace = (index, ...next) => change(items.toSpliced(index, 1, ...next));
  return html`
    ${items.map(
      (item, index) => html`
        <div class="item" key=${`${items.length} ${index}`}>
          <${Field} name=${`${name} ${index + 1}`} schema=${schema.items} root=${root} value=${item} change=${(next) => replace(index, next)} />
          <button type="button" class="quiet" onClick=${() => replace(index)}>Remove</button>
        </div>
      `,
    )}
    <button type="button" class="quiet" onClick=${() => change([...items, firstValue(schema.items, root)])}>Add to ${name}</button>
  `;
}

function Mapping({ name, schema, root, value, change }) {
  const entries = Object.entries(value ?? {});
  const replace = (index, ...next) => change(Object.fromEntries(entries.toSpliced(index, 1, ...next)));
  const add = () => change({ ...value, [`key${entries.length + 1}`]: firstValue(schema.additionalProperties, root) });
  return html`
    ${entries.map(
      ([key, item], index) => html`
        <div class="item" key=${index}>
          <input aria-label=${`Name ${index + 1} in ${name}`} value=${key} onChange=${(event) => replace(index, [event.currentTarget.value, item])} />
          <${Field} name=${key} schema=${schema.additionalProperties} root=${root} value=${item} change=${(next) => replace(index, [key, next])} />
          <button type="button" class="quiet" onClick=${() => replace(index)}>Remove</button>
        </div>
      `,
    )}
    <button type="button" class="quiet" onClick=${add}>Add to ${name}</button>
  `;
}

const KINDS = { choice: Choice, truth: Truth, number: NumberField, text: Text, list: List, fields: Group, map: Mapping, json: JsonField };
