/** Server-sent events by `fetch`, because `EventSource` cannot send a token. */

import { Problem, send } from "./client.js";
import { parseJson } from "./json.js";

const FIRST_DELAY = 500;
const LONGEST_DELAY = 15_000;

/**
 * Call `onEvent(document, type)` for each event until `signal` aborts. After a lost connection the stream continues after the
 * last id, or at the end of the log if it lacks this position (410); `onOpen` is called after each connect. Another response
 * 4xx ends the stream with its `Problem`.
 */
export async function follow(path, { query, onEvent, onOpen = () => {}, signal }) {
  let lastId = null;
  let delay = FIRST_DELAY;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
      const response = await send(path, { query, headers, signal });
      onOpen();
      delay = FIRST_DELAY;
      for await (const event of readEvents(response.body)) {
        lastId = event.id || lastId;
        onEvent(parseJson(event.data), event.type);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status < 500 && error.status !== 410) throw error;
      if (error.status === 410) lastId = null;
    }
    await pause(delay, signal);
    delay = Math.min(delay * 2, LONGEST_DELAY);
  }
}

/** Yield `{id, type, data}` for each event of a body, as in WHATWG HTML, 9.2. */
export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value;
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event.data !== null) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parseEvent(block) {
  const event = { id: "", type: "message", data: null };
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (line.startsWith("id:")) event.id = value;
    else if (line.startsWith("event:")) event.type = value;
    else if (line.startsWith("data:")) event.data = event.data === null ? value : `${event.data}\n${value}`;
  }
  return event;
}

/** Wait for some milliseconds, or until `signal` aborts. */
export function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
