/** Preact and its hooks, with htm's templates bound to it. All modules import Preact from here. */

import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { Fragment, render } from "./vendor/preact.js";
export { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";

export const html = htm.bind(h);
