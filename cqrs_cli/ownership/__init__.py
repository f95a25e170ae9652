"""The right to write a partition: of one writer, whatever comes, goes or is lost. Knows neither aggregate nor process.

A `Supervisor` has one partition, and lets one owner after another work. Deciding and reacting are its two users: their
owners have the same first steps and the same loop, and differ in what a batch is and where the position stands.

| what | where |
|---|---|
| claims, and how an owner judges the one it finds | `claim` |
| the clients of an owner, the gate, the claim that rides with each commit | `session.Session` |
| poll, work, commit, rest | `loop.Loop` |
| what follows an error | `supervisor.Supervisor` |
| records on which workers die, or which do not end | `trials`, `watchdog` |
| ending a run from outside | `retire` |

| what went wrong | what the supervisor does |
|---|---|
| `Superseded`: a later run has claimed | ends: `TakenOverError`; its run, when all are taken, or no more |
| `Superseded`: a later attempt of its own run has claimed | ends quietly |
| `ClaimLost`: an older run came back, or the offset is gone | begins again |
| `BatchTooLarge`: a batch that its own records keep from being committed | begins again with half the batch |
| … of one record | `blame`: a command without its bytes, or the run ends; an event stops its process |
| one of `PROCESS_ERRORS` | begins again with half the batch; ends the run once it lasts |
| `ContradictionError` while another's claim is committed | begins again: that owner was at work |
| `ReadShortError`: a log holds more than was read of it | begins again, with nothing committed |
| `ContradictionError` before the loop | begins again; ends the run once it lasts `Timing.contradicted` |
| … while a replica of the logs is not in sync | the same, but `Timing.out_of_sync` |
| `ContradictionError` in the loop | ends the run |
| `MissingError`: a partition does not exist | begins again; ends the run once it lasts `Timing.missing` |
| `OffsetPending`, or `StalledError` of a transaction of its own that Kafka left open | settles it, and begins again |
| `StalledError`: another open transaction hides the end of a log | `wait_out`: deciding ends the run, reacting waits |
| `PayloadUnavailableError` | says what it waits for, and begins again |
| an ACL is missing | ends the run, and names the ACL |
| `KafkaException`, `UnavailableError`, also fenced or no answer | begins again |
| a call never returns | ends the whole task, which the driver submits again |
| the user's code does not end | the task blames the record in the claim, and ends; the driver submits it again |
| the process dies | says nothing: the next one suspects its records, `trials.trial` |
| any other error | ends the run |
"""
