"""The owner protocol for commands. It needs no Spark.

A `DecidingSupervisor` has one partition. It catches the shard up, then runs one `DecidingOwner` after another:

| step | action | function |
|---|---|---|
| 0 warm | fold most of the log while the previous owner still decides | `catch_up.fold_unfenced` |
| 1 fence | fence the previous owner, which ends its open transaction | `owner.DecidingOwner.fence` |
| 2 claim | replace the committed claim, unless it is newer | `owner.DecidingOwner.claim`, `ownership.claim` |
| 3 position | derive the next offset from the log | `owner.DecidingOwner.position`, `log_state`, `position.position` |
| 4 recover | bring the shard up to date | `owner.DecidingOwner.recover`, `recover`, `state_cache.StateCache` |
| 5 loop | poll, decide, commit to Kafka, apply to the shard | `owner.DecidingOwner.loop`, `loop.DecideLoop` |
| 6 any error | close the owner, compare the claims, then start again at 1, or end | `ownership.supervisor.Supervisor` |

The table in `ownership` lists the reactions to errors. Owners that decide have further errors:

| error | reaction of the owner |
|---|---|
| `UnwritableBatch` of one record, whose dead letter is too large | starts again; the dead letter then omits the bytes |
| … of one record, whose timestamp a topic does not accept | ends the run; the error names the topic's setting |
| … of one record, in every other case | ends the run; the error names `--fail` |
| `DecisionInterrupted`: `PROCESS_ERRORS` in the aggregate's code | starts again; later decides this command alone |
| … while one command was decided alone | starts again; the command fails after `attempts.ATTEMPTS` attempts |
| `NotOwnerError`: another owner has written to the shard | starts again |
| `AheadError`: the shard holds decisions that the log has lost | quarantines the shard, and starts with a new shard |
| `CorruptError`: the shard is damaged | quarantines the shard, and starts with a new shard |
| … the new shard is damaged, too | ends the run |
| a stopped process holds the lock of the shard | ends the whole task, which the driver submits again |
"""
