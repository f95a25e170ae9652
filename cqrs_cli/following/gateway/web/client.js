/**
 * A client of the gateway's HTTP interface. Addresses are relative to the page, so that a proxy can serve the gateway
 * below a prefix. The token is kept until the tab is closed.
 */

import { formatJson, parseJson } from "./json.js";

const BASE = new URL(".", document.baseURI);
const TOKEN = "cqrs.token";

/** Dispatches `token-needed`, `token-changed`, `reachable` and `unreachable`. */
export const connection = new EventTarget();

/** A response that reports a problem (RFC 9457). `body` has all members, such as `outcome`. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? body.title ?? `HTTP ${status}`);
    this.status = status;
    this.title = body.title ?? `HTTP ${status}`;
    this.body = body;
  }
}

/** The gateway did not answer: it restarts, or the network is down. */
export class Unreachable extends Error {
  constructor() {
    super("the gateway does not answer");
    this.title = "no connection";
  }
}

export const readToken = () => sessionStorage.getItem(TOKEN);

/** Use another token for all requests, or none. */
export function changeToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
  connection.dispatchEvent(new Event("token-changed"));
}

/** Return a path of encoded segments. A browser cannot request the segments `.` and `..`. */
export function pathOf(...segments) {
  if (segments.some((segment) => segment === "." || segment === "..")) {
    throw new Problem(400, { title: "invalid id", detail: "a browser cannot request the ids . and .." });
  }
  return segments.map(encodeURIComponent).join("/");
}

/** Return the address of a path of the gateway, with the parameters that have a value. */
export function addressOf(path, query = {}) {
  const address = new URL(`./${path}`, BASE);
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== undefined && item !== null && item !== "") address.searchParams.append(name, item);
    }
  }
  return address;
}

/** Send a request, and return the response if it is no problem. Throws `Problem` and `Unreachable`. */
export async function send(path, { method = "GET", query, headers = {}, body, signal } = {}) {
  const token = readToken();
  const authorization = token ? { Authorization: `Bearer ${token}` } : {};
  let response;
  try {
    const sent = { Accept: "application/json", ...authorization, ...headers };
    response = await fetch(addressOf(path, query), { method, headers: sent, body, signal, cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    connection.dispatchEvent(new Event("unreachable"));
    throw new Unreachable();
  }
  if (response.status === 502) {
    connection.dispatchEvent(new Event("unreachable"));
    throw new Unreachable();
  }
  connection.dispatchEvent(new Event("reachable"));
  if (response.ok) return response;
  if (response.status === 401) connection.dispatchEvent(new Event("token-needed"));
  throw new Problem(response.status, await readProblem(response));
}

async function readProblem(response) {
  try {
    return parseJson(await response.text());
  } catch {
    return { title: `HTTP ${response.status}` }; // from a proxy
  }
}

/** Return the document at a path. */
export async function get(path, query, signal) {
  return parseJson(await (await send(path, { query, signal })).text());
}

/** Post a document, and return the response's document. */
export async function post(path, document, { query, headers = {} } = {}) {
  const response = await send(path, {
    method: "POST",
    query,
    body: formatJson(document),
    headers: { "Content-Type": "application/json", ...headers },
  });
  return parseJson(await response.text());
}
