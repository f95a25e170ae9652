/** Hooks that load data while a page is shown. */

import { connection, Problem, Unreachable } from "./client.js";
import { useEffect, useRef, useState } from "./html.js";
import { follow, pause } from "./streams.js";

const RETRY_DELAY = 1_500;

/** Milliseconds after which a page loads data again that changes without an event: owners answer an action later. */
export const POLL_INTERVAL = 2_000;

/** Repeated loads pause for this factor times the duration of a load, so that they cost the gateway little. */
const PAUSE_FACTOR = 20;

/** The longest delay of a browser's timer. */
const FOR_EVER = 2 ** 31 - 1;

const EMPTY = { data: null, error: null };

/**
 * Load `load(signal)` again whenever one of `keys` changes. Return `{data, error, reload}`. Another value of `after`, a new
 * token, and `every` milliseconds load again, too, and `data` stays meanwhile. While the gateway does not answer, the
 * request is repeated until it does.
 */
export function useResource(load, keys, { every = 0, after } = {}) {
  const key = JSON.stringify(keys);
  const [state, setState] = useState({ key, ...EMPTY });
  const latest = useRef({ load, reload: () => {} });
  latest.current.load = load;
  const reason = JSON.stringify([useTokenChanges(), after]);
  const loadedReason = useRef(reason);

  useEffect(() => {
    const controller = new AbortController();
    const set = (change) => setState((old) => ({ key, ...change(old.key === key ? old : EMPTY) }));
    latest.current.reload = keepLoading((signal) => latest.current.load(signal), every, controller.signal, set);
    return () => controller.abort();
  }, [key]);

  const reload = () => latest.current.reload();
  useEffect(() => {
    if (loadedReason.current !== reason) reload();
    loadedReason.current = reason;
  }, [reason]);
  return { ...(state.key === key ? state : EMPTY), reload };
}

/**
 * Load until `signal` aborts: at once, every `every` milliseconds (0: never), and after each call of the returned function.
 * A call during a load starts another load after it, because the answer may be older than the call. Nothing is loaded by time
 * in a hidden tab, and while a dialog is open, which may belong to an item that a new answer lacks.
 */
function keepLoading(load, every, signal, set) {
  let isStale = true;
  let wake = () => {};
  const waitForReason = async (duration) => {
    do {
      const waiting = new AbortController();
      wake = () => waiting.abort();
      const delay = every ? Math.max(every, PAUSE_FACTOR * duration) : FOR_EVER;
      await pause(delay, AbortSignal.any([signal, waiting.signal]));
    } while (!isStale && !signal.aborted && (document.hidden || document.querySelector("dialog[open]")));
  };
  const run = async () => {
    while (!signal.aborted) {
      isStale = false;
      const duration = await loadUntilAnswered(load, signal, set);
      if (!isStale && !signal.aborted) await waitForReason(duration);
    }
  };
  run();
  return () => {
    isStale = true;
    wake();
  };
}

/** Return the milliseconds of the request that was answered. */
async function loadUntilAnswered(load, signal, set) {
  for (;;) {
    const startedAt = performance.now();
    const elapsed = () => performance.now() - startedAt;
    try {
      const data = await load(signal);
      if (!signal.aborted) set(() => ({ data, error: null }));
      return elapsed();
    } catch (error) {
      if (signal.aborted) return elapsed();
      const again = error instanceof Unreachable || (error instanceof Problem && error.status === 503);
      set((old) => ({ data: again ? old.data : null, error }));
      if (!again) return elapsed();
      await pause(RETRY_DELAY, signal);
    }
  }
}

/**
 * Call `onEvent` for each event of a stream, `onOpen` after each connect, and `onProblem` if a `Problem` ends the stream. Another
 * `path` or a new token opens another stream.
 */
export function useStream(path, { onEvent, onOpen, onProblem }) {
  const handlers = useRef({});
  handlers.current = { onEvent, onOpen, onProblem };
  const tokens = useTokenChanges();
  useEffect(() => {
    if (!path) return undefined;
    const controller = new AbortController();
    follow(path, {
      onEvent: (document, type) => handlers.current.onEvent(document, type),
      onOpen: () => handlers.current.onOpen?.(),
      signal: controller.signal,
    }).catch((error) => handlers.current.onProblem?.(error)); // the page's own requests report the problem
    return () => controller.abort();
  }, [path, tokens]);
}

/** Return how often the token has changed since the component was mounted. */
export function useTokenChanges() {
  const [changes, setChanges] = useState(0);
  useEffect(() => {
    const add = () => setChanges((number) => number + 1);
    connection.addEventListener("token-changed", add);
    return () => connection.removeEventListener("token-changed", add);
  }, []);
  return changes;
}

/** Return `value` once it has not changed for some milliseconds. */
export function useSettled(value, milliseconds) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
