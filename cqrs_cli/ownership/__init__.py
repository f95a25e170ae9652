"""The right to write a partition: one owner holds it at a time, through restarts, takeovers and lost machines. This
package knows neither aggregates nor process managers.

A `Supervisor` has one partition, and runs one owner after another. Deciding and process managers use it: their owners
share the first steps and the loop, and differ in the content of a batch and in the storage of the position.

| subject | module |
|---|---|
| claims, and the comparison of the committed claim with the own claim | `claim` |
| the clients of an owner, batch admission, the claim in each commit | `session.Session` |
| the loop: poll, work, commit | `loop.Loop` |
| the reaction to an error | `supervisor.Supervisor` |
| records on which workers die, or on which the user's code hangs | `poison_detection`, `watchdog` |
| ending a run from outside | `retire` |

| error | reaction of the supervisor |
|---|---|
| `LaterClaim`: a later run has claimed | `TakenOverError`; the run ends when the later run takes over nothing more |
| … in standby mode | waits for the next takeover |
| `LaterClaim`: a later attempt of the same run has claimed | ends without an error |
| `ClaimLost`: an older run came back, or the offset is gone | starts another owner |
| `UnwritableBatch`: a batch whose own records prevent its commit | starts another owner, with half the batch |
| … of one record, if the broker is not the cause | `handle_unwritable_record`: the command fails, or the run ends |
| `PROCESS_ERRORS`, such as `MemoryError` | starts another owner, with half the batch; ends the run if it persists |
| `ContradictionError` while another owner's claim is committed | starts another owner: the other owner was writing |
| `UnreadRecordsError`: a log holds more records than were read | commits nothing, and starts another owner |
| `ContradictionError` before the loop | starts another owner; ends the run after `Timing.inconsistency_timeout` |
| … while a replica of the logs is out of sync | starts another owner; ends the run after `Timing.out_of_sync_timeout` |
| … that waiting cannot resolve (`is_permanent`) | ends the run |
| `ContradictionError` in the loop | ends the run |
| `MissingPartitionError`: no such partition | starts another owner; ends the run after `Timing.missing_timeout` |
| `OffsetPending`, or `StalledError` of the owner's own transaction | resolves the transaction, starts another owner |
| `StalledError`: another transaction hides the end of a log | `handle_stall`: ends the run; process managers wait |
| `PayloadUnavailableError` | reports the missing payload, and starts another owner |
| an ACL is missing | ends the run; the error names the ACL |
| `KafkaException`, `UnavailableError`, also after a fence or a timeout | starts another owner |
| a call never returns | ends the whole task, which the driver submits again |
| the user's code hangs | the task names the record in the claim, and ends; the driver submits it again |
| the process dies | no report: the next owner suspects its records, `poison_detection.suspects` |
| any other error | ends the run |
"""
