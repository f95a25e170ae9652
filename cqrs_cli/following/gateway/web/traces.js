/** The commands of a trace document (`api/trace`), as lists. */

/** Yield `{node, parent, depth, through}` for each command; `through` is the event that a process manager answered. */
export function* commandsOf(nodes, parent = null, depth = 0, through = null) {
  for (const node of nodes ?? []) {
    yield { node, parent, depth, through };
    yield* commandsOf(node.commands, node, depth + 1);
    for (const event of node.events ?? []) yield* commandsOf(event.commands, node, depth + 1, event);
  }
}

/** Return `[{aggregate, subject}]`: each aggregate of a trace once, in the order of its first command. */
export function relatedAggregates(trace) {
  const found = new Map();
  for (const { node } of commandsOf(trace.commands)) {
    const key = JSON.stringify([node.aggregate, node.subject]);
    if (!found.has(key)) found.set(key, { aggregate: node.aggregate, subject: node.subject });
  }
  return [...found.values()];
}
