"""The owner protocol: one writer for each partition, whatever comes, goes or is lost. It needs no Spark.

A `Supervisor` has one partition. It warms the shard, then lets one `Owner` after another work:

| step | what happens | function |
|---|---|---|
| 0 warm | fold most of the log while the owner before still serves | `recover.warm` |
| 1 fence | fence the owner before; its open transaction is settled | `owner.Owner.fence` |
| 2 claim | judge the committed claim, and replace it | `owner.Owner.claim`, `claim.judge`, `claim.succeed` |
| 3 position | judge from the log where to go on | `owner.Owner.position`, `log_state`, `position.position` |
| 4 recover | bring the shard up to the log | `owner.Owner.recover`, `recover`, `state_cache.StateCache` |
| 5 loop | poll, decide, commit to Kafka, apply to the shard | `owner.Owner.loop`, `loop.Loop.run` |
| 6 any error | drop the owner, judge the claim, begin again at 1, or end | `supervisor.Supervisor` |

| what went wrong | what the owner does |
|---|---|
| `Superseded`: a later run has claimed | ends, and its run with it: `TakenOverError` |
| `Superseded`: a later attempt of its own run has claimed | ends quietly |
| `ClaimLost`: an older run came back, or the offset is gone | begins again |
| `NotOwnerError`: somebody else has written the shard | begins again |
| `BatchTooLarge`: a batch that its own records keep from being committed | begins again with half the batch |
| … of one record, whose dead letter is too large | begins again; the dead letter goes without the record's bytes |
| … of one record, whose time a topic refuses | ends the run, and names the topic's setting |
| … of one record, in every other case | ends the run, and names `--fail` |
| `Undecided`: one of `PROCESS_ERRORS` in the aggregate's code | begins again with the commands before it |
| … of one command alone | begins again; the command fails after `attempts.ATTEMPTS` times |
| one of `PROCESS_ERRORS` elsewhere | begins again with half the batch; ends the run once it lasts |
| `ContradictionError` while another's claim is committed | begins again: that owner was at work |
| `ReadShortError`: a log holds more than was read of it | begins again, with nothing committed |
| `ContradictionError` in steps 3 and 4 | begins again; ends the run once it lasts `Timing.contradicted` |
| … while a replica of the logs is not in sync | the same, but `Timing.unsettled` |
| `ContradictionError` in step 5 | ends the run |
| `MissingError`: a partition does not exist | begins again; ends the run once it lasts `Timing.missing` |
| `OffsetPending`, or `StalledError` of a transaction of its own that Kafka left open | settles it, and begins again |
| `StalledError`: another open transaction hides the end of a log | ends the run, and names the transaction |
| an ACL is missing | ends the run, and names the ACL |
| `KafkaException`, `UnavailableError`, also fenced or no answer | begins again |
| `CorruptError`: the shard is damaged, or ahead of the log | sets it aside and begins with a new one |
| `CorruptError`: the new shard is damaged, too | ends the run |
| a call never returns, or a stopped process holds the shard | ends the whole task, which the driver submits again |
| `decide` does not end | the task blames the command in the claim, and ends; the driver submits it again |
| the process dies | says nothing: the next one suspects its commands, `trials.trial` |
| any other error | ends the run |
"""
