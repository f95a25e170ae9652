/** The expected version and the correlation of a command, which are headers of its request. */

import { formatNumber } from "../format.js";
import { html } from "../html.js";

const EXPECTED = {
  any: "any version",
  exactly: "exactly version …",
  exists: "the aggregate must exist",
  none: "the aggregate must not exist",
};

/** Return a new random id; browsers have `randomUUID` only with TLS or on this machine. */
export function newCommandId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Headers are bytes; the gateway reads them as UTF-8. */
const asHeader = (text) => String.fromCharCode(...new TextEncoder().encode(text));

/** Return the headers of a command's request. */
export function headersOf({ expected, version, correlation }, commandId) {
  const headers = { "Idempotency-Key": commandId };
  if (expected === "exactly") headers["If-Match"] = `"${version}"`;
  if (expected === "exists") headers["If-Match"] = "*";
  if (expected === "none") headers["If-None-Match"] = "*";
  if (correlation) headers["Correlation-Id"] = asHeader(correlation);
  return headers;
}

/** `present`: the aggregate now; choosing `exactly` fills in its version. */
export function ExpectedVersion({ headers, change, present }) {
  const set = (members) => change({ ...headers, ...members });
  const choose = (event) => {
    const expected = event.currentTarget.value;
    set({ expected, version: headers.version || String(present?.version ?? "") });
  };
  return html`
    <div class="field-row separate">
      <label for="expected">Expected version</label>
      <div>
        <select id="expected" value=${headers.expected} onChange=${choose}>
          ${Object.entries(EXPECTED).map(([value, text]) => html`<option value=${value}>${text}</option>`)}
        </select>
        ${headers.expected === "exactly" &&
        html`
          <input
            aria-label="Version"
            inputmode="numeric"
            pattern="[0-9]{1,18}"
            required
            value=${headers.version}
            onInput=${(event) => set({ version: event.currentTarget.value })}
          />
        `}
        ${present &&
        html`<p class="faint">
          ${present.version ? `now at version ${formatNumber(present.version)}` : "the aggregate does not exist yet"}
        </p>`}
      </div>
    </div>
    <div class="field-row">
      <label for="correlation">Correlation id</label>
      <input
        id="correlation"
        placeholder="a new one"
        autocomplete="off"
        value=${headers.correlation}
        onInput=${(event) => set({ correlation: event.currentTarget.value })}
      />
    </div>
  `;
}
