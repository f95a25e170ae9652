/** Merges the changes that follow an overview. */

const keyOf = ({ topic, partition }) => `${topic ?? ""}/${partition}`;

/** Return `overview` with the members of `changes`. Its partitions that did not change are the same objects as before. */
export function mergeOverview(overview, changes) {
  return { ...overview, ...changes, status: mergeStatus(overview.status, changes.status) };
}

function mergeStatus(status, changes) {
  if (!status || !changes) return changes;
  return {
    ...changes,
    aggregates: mergeGroups(status.aggregates, changes.aggregates),
    processes: mergeGroups(status.processes, changes.processes),
  };
}

const mergeGroups = (groups, changes) =>
  Object.fromEntries(
    Object.entries(changes).map(([name, group]) => [
      name,
      { ...group, partitions: mergePartitions(groups[name].partitions, group.partitions) },
    ]),
  );

function mergePartitions(partitions, changed) {
  if (!changed.length) return partitions;
  const changedByKey = new Map(changed.map((partition) => [keyOf(partition), partition]));
  return partitions.map((partition) => changedByKey.get(keyOf(partition)) ?? partition);
}
