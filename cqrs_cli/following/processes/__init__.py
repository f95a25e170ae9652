"""Processes: events of one aggregate become commands of another, each event exactly once. It needs no Spark.

One owner for each process and partition of events, as for commands:

| step | what happens | function |
|---|---|---|
| 0 settle | end what Kafka left open of the writer before | `owner.ReactingOwner.settle` |
| 1 fence | fence the owner before; its open transaction is settled | `owner.ReactingOwner.fence` |
| 2 claim | judge claim and position; commit both, then read | `owner.ReactingOwner.claim`, `position.resume` |
| 3 loop | read events, react, commit commands and position in one transaction | `loop.ReactLoop` |
| 4 any error | drop the owner, judge the claim, begin again, or end | `ownership.supervisor.Supervisor` |

What follows an error is the table of `ownership`. A topic of commands that is missing ends the run once that lasts. A
record that alone cannot be committed is an event whose commands a topic refuses: it stops the process.
"""
