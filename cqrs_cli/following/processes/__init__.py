"""Process managers: events of aggregates become commands for aggregates, exactly once for each event. Needs no Spark.

Each pair of process manager and events partition has one owner:

| step | what happens | function |
|---|---|---|
| 0 resolve | resolve an in-doubt transaction of the previous writer | `owner.ReactingOwner.resolve_in_doubt` |
| 1 fence | fence the previous owner; the fence resolves its open transaction | `owner.ReactingOwner.fence` |
| 2 claim | judge claim and position; commit both, then read | `owner.ReactingOwner.claim`, `position.start_position` |
| 3 loop | read events, react, commit commands and position in one transaction | `loop.ReactLoop` |
| 4 any error | close the owner, judge the claim, start another owner, or end | `ownership.supervisor.Supervisor` |

The table in `ownership` lists the reaction to each error. A missing commands topic ends the run after a timeout. If a
topic rejects the commands for an event, the process manager stops at this event.
"""
