/** Addresses of pages, after `#`: `#/aggregate/order/o-42?version=7`. */

import { useEffect, useState } from "./html.js";

/** Return `{page, parts, query}` of an address; parts are decoded. */
export function parseAddress(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [page, ...parts] = path.split("/").map(decode);
  return { page: page || "overview", parts, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decode(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Return the address of a page: `linkTo(["aggregate", "order", "o-42"], {version: 7})`. */
export function linkTo(parts, query = {}) {
  const present = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = present.length ? `?${new URLSearchParams(present)}` : "";
  return `#/${parts.map(encodeURIComponent).join("/")}${search}`;
}

export const linkToAggregate = (name, id, query) => linkTo(["aggregate", name, id], query);

/** Go to an address; with `replace` the back button skips the present address. */
export function navigate(address, { replace = false } = {}) {
  if (address === location.hash) return;
  if (!replace) {
    location.hash = address;
    return;
  }
  history.replaceState(null, "", address);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** Return the present address, parsed. */
export function useAddress() {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const update = () => setHash(location.hash);
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return parseAddress(hash);
}
