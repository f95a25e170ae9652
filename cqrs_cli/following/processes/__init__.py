"""Processes: events of one aggregate become commands of another, each event exactly once. It needs no Spark.

One owner for each process and partition of events, as for commands:

| step | what happens | function |
|---|---|---|
| 1 fence | fence the owner before; its open transaction is settled | `owner.ProcessOwner.fence` |
| 2 claim | judge claim and position; commit both, then read | `owner.ProcessOwner.claim`, `position.resume` |
| 3 loop | read events, react, commit commands and position in one transaction | `loop.ReactLoop.run` |
| 4 any error | drop the owner, judge the claim, begin again at 1, or end | `supervisor.ProcessSupervisor` |
"""
