"""The owner protocol for commands. It needs no Spark.

A `DecidingSupervisor` has one partition. It warms the shard, then lets one `DecidingOwner` after another work:

| step | what happens | function |
|---|---|---|
| 0 warm | fold most of the log while the owner before still serves | `warm.warm` |
| 1 fence | fence the owner before; its open transaction is settled | `owner.DecidingOwner.fence` |
| 2 claim | judge the committed claim, and replace it | `owner.DecidingOwner.claim`, `ownership.claim` |
| 3 position | judge from the log where to go on | `owner.DecidingOwner.position`, `log_state`, `position.position` |
| 4 recover | bring the shard up to the log | `owner.DecidingOwner.recover`, `recover`, `state_cache.StateCache` |
| 5 loop | poll, decide, commit to Kafka, apply to the shard | `owner.DecidingOwner.loop`, `loop.DecideLoop` |
| 6 any error | drop the owner, judge the claim, begin again at 1, or end | `ownership.supervisor.Supervisor` |

What follows an error is the table of `ownership`. Owners that decide meet some more:

| what went wrong | what the owner does |
|---|---|
| `BatchTooLarge` of one record, whose dead letter is too large | begins again; the dead letter has no bytes of it |
| … of one record, whose time a topic refuses | ends the run, and names the topic's setting |
| … of one record, in every other case | ends the run, and names `--fail` |
| `Undecided`: one of `PROCESS_ERRORS` in the aggregate's code | begins again with the commands before it |
| … of one command alone | begins again; the command fails after `attempts.ATTEMPTS` times |
| `NotOwnerError`: somebody else has written the shard | begins again |
| `AheadError`: the shard holds what the log has lost | sets it aside and begins with a new one |
| `CorruptError`: the shard is damaged | the same |
| … the new shard is damaged, too | ends the run |
| a stopped process holds the shard | ends the whole task, which the driver submits again |
"""
