/** JSON Schemas of commands, as the gateway's OpenAPI document has them. */

/** Return the schema that `schema` refers to; `root` is the document with the definitions. */
export function resolve(schema, root) {
  let found = schema ?? {};
  while (found.$ref) {
    const path = found.$ref.replace(/^#\//, "").split("/").map(unescapeName);
    found = path.reduce((part, name) => part?.[name], root) ?? {};
  }
  return found;
}

const unescapeName = (name) => decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~");

/** Return `{schema, nullable}`: for a choice between a schema and null, the schema without null. */
export function withoutNull(schema, root) {
  const found = resolve(schema, root);
  const choices = (found.anyOf ?? []).filter((choice) => choice.type !== "null");
  if (!found.anyOf || choices.length === found.anyOf.length || choices.length !== 1) {
    return { schema: found, nullable: found.type === "null" };
  }
  return { schema: { ...found, ...resolve(choices[0], root), anyOf: undefined }, nullable: true };
}

/** Return which field a form needs for a schema: `choice`, `truth`, `number`, `text`, `list`, `fields`, `map` or `json`. */
export function fieldOf(schema) {
  if (schema.enum || "const" in schema) return "choice";
  if (schema.anyOf || schema.oneOf || Array.isArray(schema.type)) return "json";
  if (schema.type === "boolean") return "truth";
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "string") return "text";
  if (schema.type === "array" && schema.items) return "list";
  if (schema.type !== "object") return "json";
  if (schema.properties) return "fields";
  return typeof schema.additionalProperties === "object" ? "map" : "json";
}

/** Return the first value of a form: required fields have one, except numbers, which the reader must write. */
export function firstValue(given, root) {
  const { schema, nullable } = withoutNull(given, root);
  if ("default" in schema) return schema.default;
  if (nullable) return null;
  switch (fieldOf(schema)) {
    case "choice":
      return (schema.enum ?? [schema.const])[0];
    case "truth":
      return false;
    case "text":
      return "";
    case "list":
      return [];
    case "map":
      return {};
    case "fields":
      return Object.fromEntries((schema.required ?? []).map((name) => [name, firstValue(schema.properties[name], root)]));
    default:
      return undefined;
  }
}

/** Return `{name: {schema, description}}` of the commands that the gateway accepts for an aggregate. */
export function commandsOf(api, aggregate) {
  const prefix = `/${aggregate}/{id}/`;
  const commands = {};
  for (const [path, operations] of Object.entries(api.paths)) {
    if (!path.startsWith(prefix) || !operations.post) continue;
    const schema = operations.post.requestBody.content["application/json"].schema;
    commands[path.slice(prefix.length)] = { schema, description: resolve(schema, api).description ?? "" };
  }
  return commands;
}
