"""A model of positions that most transactions omit: an outdated group offset meets outdated brokers and lost markers.

The outcomes contain the position. So a transaction commits the group's offset, with the claim in its metadata, only if
that commit is *due*: `deciding.session.OwnerSession.is_position_due`. This model extends `tests/model`, which explores
omitted positions with owners, zombies, late markers and retention. It adds the faults that a current group offset
detected before: outdated brokers, lost markers, poison commands, splits, and owners of an older version.

1. **Commit.** The position is due if the claim changes apart from its counts, if the last commit of a position is half
   a second old, if the transaction has records in other topics, when the owner is idle, and when it ends.
2. **Find.** After the fence, a new owner reads the group's offset and claim, and the outcomes to their high watermark
   under read_committed. Its position is the later of the group's offset and the offset after the last outcome. It
   commits its claim there. If retention has deleted all outcomes, the last event counts. Rejected commands since the
   last commit of a position have no event, so they are decided again in that case (`docs/guarantees.md`).
3. **Append.** The first record of each log must get the offset of the end that was read (`kafka.expected_offsets`). The
   end of the outcomes must come from the read that gave the position: an outdated broker may have answered that read,
   and a current broker a later read. A current group offset would have revealed the outdated answer.
4. **Split.** A split writes no outcome, so no record shows that the ends were read from an outdated broker, and the
   child would miss the last decisions. So the owner proves the ends before it splits: it writes a record to each log
   without a committed record of its own, compares the offsets, and aborts the transaction
   (`kafka.writer.FencedWriter.prove_log_ends`).
5. **Resolve.** A hidden record in any topic needs the command that caused it. If an outcome of this command or of a
   later command is visible, the transaction was committed. The group's offset proves this only if the position was due.
6. **Poison commands.** A claim that loses `untried`, or changes its suspects, is due at once. So the claim of a dead
   owner shows whether the owner had decided a command. The watchdog blames a command only if no outcome shows that the
   command was decided.
7. **Older versions.** An owner that takes its claim's offset from the group alone finds a later outcome in step 3 of
   the protocol, and stops with exit code 5. It repeats no decision. An owner of the new version then continues.

The silence of an active run is measured by heartbeats, and the readiness of a split by the partition history, so
neither needs the position. `cqrs verify` uses the same rule as a new owner (`ownership.decided_end`).
"""
