/** JSON with exact whole numbers: those beyond 2^53 become `BigInt`, and are written as they were read. */

/** Parse JSON text. */
export function parseJson(text) {
  return JSON.parse(text, (name, value, context) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
      ? BigInt(context.source)
      : value,
  );
}

/** Return `value` as JSON text. */
export function formatJson(value, indent = 0) {
  const write = (name, part) => (typeof part === "bigint" ? JSON.rawJSON(String(part)) : part);
  return JSON.stringify(value, write, indent);
}
