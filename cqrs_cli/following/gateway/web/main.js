/** The console: the frame around all pages, and which module shows which page. */

import { html, render } from "./html.js";
import { Shell } from "./shell.js";
import * as aggregate from "./pages/aggregate.js";
import * as browse from "./pages/browse.js";
import * as deadLetters from "./pages/dead_letters.js";
import * as deferred from "./pages/deferred.js";
import * as model from "./pages/model.js";
import * as overview from "./pages/overview.js";
import * as processes from "./pages/processes.js";
import * as projections from "./pages/projections.js";
import * as search from "./pages/search.js";
import * as send from "./pages/send.js";
import * as trace from "./pages/trace.js";

/** Each page module has `title(parts, query)` and `Page({parts, query, session})`. */
const PAGES = {
  overview,
  search,
  browse,
  aggregate,
  trace,
  "dead-letters": deadLetters,
  deferred,
  processes,
  projections,
  model,
  send,
};

/** The navigation: address, name, and the key after `g` that opens the page. */
const NAVIGATION = [
  { page: "overview", name: "Overview", key: "o" },
  { page: "search", name: "Search", key: "f" },
  { page: "browse", name: "Aggregates", key: "a" },
  { page: "trace", name: "Trace", key: "t" },
  { page: "dead-letters", name: "Dead letters", key: "d" },
  { page: "deferred", name: "Deferred", key: "w" },
  { page: "processes", name: "Process managers", key: "p" },
  { page: "projections", name: "Projections", key: "r" },
  { page: "model", name: "Model", key: "m" },
  { page: "send", name: "Send", key: "s" },
];

render(html`<${Shell} pages=${PAGES} navigation=${NAVIGATION} />`, document.getElementById("console"));
