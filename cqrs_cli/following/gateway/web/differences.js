/** Differences between two states. */

/** At most so many differences are listed; a state may have a million values. */
const LONGEST = 200;

const isContainer = (value) => typeof value === "object" && value !== null;

const equal = (left, right) => left === right || (!isContainer(left) && Object.is(left, right));

/**
 * Return `[{path, before, after}]`; `before` is undefined for an added value, `after` for a removed value.
 * `path` is a list of names and indexes.
 */
export function differencesOf(before, after) {
  const found = [];
  compare(before, after, [], found);
  return found;
}

function compare(before, after, path, found) {
  if (found.length >= LONGEST || equal(before, after)) return;
  const comparable = isContainer(before) && isContainer(after) && Array.isArray(before) === Array.isArray(after);
  if (!comparable) {
    found.push({ path, before, after });
    return;
  }
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  for (const name of names) {
    const key = Array.isArray(after) ? Number(name) : name;
    compare(before[name], after[name], [...path, key], found);
  }
}

/** Return the text of a path: `lines.0.sku`. */
export const formatPath = (path) => (path.length ? path.join(".") : "state");

/** Return a map from each changed path, as JSON, to its difference, and the set of the paths above them. */
export function changedPaths(differences) {
  const changed = new Map(differences.map((difference) => [JSON.stringify(difference.path), difference]));
  const above = new Set();
  for (const { path } of differences) {
    for (let length = 0; length < path.length; length++) above.add(JSON.stringify(path.slice(0, length)));
  }
  return { changed, above };
}
