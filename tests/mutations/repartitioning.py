"""The mutations of repartitioning: rules of the partition history, of forwarding, and of imported data."""

from tests.mutations.table import Mutation

_LINEAGE_TESTS = "tests/core/test_lineage.py"
_CHECK_TESTS = "tests/core/test_checks.py"
_VERIFICATION_TESTS = "tests/proof/test_repartitioning.py"
_PENDING_PARTITION_TESTS = "tests/deciding/test_pending_partitions.py"
_HANGING_TRANSACTION_TESTS = "tests/scenarios/crashes/hanging/test_parts.py"

REPARTITIONING = [
    Mutation(
        "a wish counts that does not follow",
        "cqrs_cli/core/lineage.py",
        (
            (
                "if record.before != self.counts[-1] or not self.is_valid_next_count(record.after):",
                "if False:",
            ),
        ),
        f"{_LINEAGE_TESTS}::test_first_request_wins",
    ),
    Mutation(
        "two growths are one split",
        "cqrs_cli/core/lineage.py",
        (
            (
                "next((count for count in self.counts if before is not None and count > before), None)",
                "next((count for count in self.counts[::-1] if before is not None and count > before), None)",
            ),
        ),
        f"{_LINEAGE_TESTS}::test_one_repartitioning_at_a_time",
    ),
    Mutation(
        "a partition splits before its topics have grown",
        "cqrs_cli/core/lineage.py",
        (
            (
                "None if step is None or step[1] > topic_partitions else step[1]",
                "None if step is None else step[1]",
            ),
        ),
        f"{_LINEAGE_TESTS}::test_request_waits_for_the_topics",
    ),
    Mutation(
        "a reader begins with a child at once",
        "cqrs_cli/core/lineage.py",
        (("        return position >= split.events and", "        return position >= 0 or"),),
        f"{_LINEAGE_TESTS}::test_reader_starts_after_the_split",
    ),
    Mutation(
        "a command whose key has moved is refused",
        "cqrs_cli/core/checks.py",
        (("(target := forward_target_of(key)) is not None", "(target := forward_target_of(key)) == -1"),),
        f"{_CHECK_TESTS}::test_commands_of_moved_keys_are_forwarded",
    ),
    Mutation(
        "a parent splits before its children are ready",
        "cqrs_cli/deciding/pending_partitions.py",
        (('    if assigned_keys.phase == "settle":\n', "    if False:\n"),),
        f"{_PENDING_PARTITION_TESTS}::test_a_parent_waits_for_its_target",
    ),
    Mutation(
        "a child folds nothing while it waits",
        "cqrs_cli/deciding/split.py",
        (("        catch_up()\n", ""),),
        f"{_PENDING_PARTITION_TESTS}::test_a_target_folds_while_it_waits",
    ),
    Mutation(
        "the tail of a long fold is left to the fence",
        "cqrs_cli/deciding/catch_up.py",
        (("        if duration < _SHORT_FOLD or duration > previous / 2:\n", "        if previous:\n"),),
        "tests/deciding/test_catch_up.py::test_catching_up_stops_when_useless",
    ),
    Mutation(
        "a fenced owner does not look for its successor",
        "cqrs_cli/ownership/committed_claims.py",
        (
            (
                "            stopping.wait(min(interval, max(0.0, deadline - time.monotonic())))",
                "            stopping.wait(seconds)",
            ),
        ),
        "tests/deciding/test_fenced.py::test_a_pause_ends_with_the_claim",
    ),
    Mutation(
        "the shard of an unborn child is folded",
        "cqrs_cli/deciding/catch_up.py",
        (('assigned_keys is not None and assigned_keys.phase == "wait"', "False"),),
        "tests/scenarios/takeovers/test_races.py::test_target_activated_meanwhile_is_not_warmed",
    ),
    Mutation(
        "an old shard keeps what it inherited as waiting",
        "cqrs_cli/deciding/deferred_fold.py",
        (("    if cache.positions.outcomes == 0 and cache.has_deferred:", "    if False:"),),
        "tests/deciding/test_deferred_fold.py::test_entries_without_outcomes_are_folded_again",
    ),
    Mutation(
        "nobody looks for hidden commands that have moved",
        "cqrs_cli/deciding/owner.py",
        (("        session.check_forwards()\n", ""),),
        f"{_HANGING_TRANSACTION_TESTS}::test_half_a_repartitioning_is_resolved[moved commands missing]",
    ),
    Mutation(
        "a forward that is too large is written",
        "cqrs_cli/core/batch_state.py",
        (("        if not self.deferrals.fits_commands_topic(key, value):\n", "        if False:\n"),),
        f"{_CHECK_TESTS}::test_forwarding_needs_room",
    ),
    Mutation(
        "an inherited deferred command has the key of another",
        "cqrs_cli/core/deferral/entry.py",
        (
            (
                "        if self.partition is None:\n            return f",
                "        if True:\n            return f",
            ),
        ),
        "tests/core/deferral/test_deciding.py::test_inherited_entries_have_other_keys",
    ),
    Mutation(
        "an inherited decision forgets its partition",
        "cqrs_cli/state/encoding.py",
        (("    if not _NO_PARTITION.issuperset(", "    if False and not _NO_PARTITION.issuperset("),),
        "tests/state/test_memory.py",
    ),
    Mutation(
        "a lineage without a wish hides a growth by hand",
        "cqrs_cli/deciding/prepare.py",
        (("if lineage is None or not lineage.lineage.was_repartitioned:", "if lineage is None:"),),
        "tests/deciding/test_repartition.py::test_lineage_without_request_adopts_nothing",
    ),
    Mutation(
        "a split may hand on an earlier clock",
        "cqrs_cli/proof/split_clock.py",
        (("split.clock < self._clock or", "False or"),),
        f"{_VERIFICATION_TESTS}::test_split_has_the_clock_of_its_outcomes",
    ),
    Mutation(
        "a split may hand on a later clock",
        "cqrs_cli/proof/split_clock.py",
        (("(self._knows_all and split.clock > self._clock)", "False"),),
        f"{_VERIFICATION_TESTS}::test_split_has_the_clock_of_its_outcomes",
    ),
    Mutation(
        "a later clock than that of the outcomes that are left is a fault",
        "cqrs_cli/proof/split_clock.py",
        (("start == 0 and scope.loss is None", "True"),),
        f"{_VERIFICATION_TESTS}::test_deleted_outcomes_may_be_later",
    ),
    Mutation(
        "a parent may keep what waits of keys that it gave away",
        "cqrs_cli/proof/key_partitions.py",
        (("offset >= split.deferred\n                and owned_key\n", "False\n"),),
        f"{_VERIFICATION_TESTS}::test_moved_keys_leave_the_parent",
    ),
    Mutation(
        "what waits no more may be told behind the split",
        "cqrs_cli/proof/deferred_log.py",
        (("outcome = find_outcome(self._outcomes, position) if entry is None else None", "outcome = None"),),
        f"{_VERIFICATION_TESTS}::test_moved_keys_leave_the_parent",
    ),
    Mutation(
        "a child may take over what was deferred behind the split",
        "cqrs_cli/proof/key_partitions.py",
        (("split.deferred > offset and split.commands <= command", "False"),),
        f"{_VERIFICATION_TESTS}::test_later_deferrals_are_not_inherited",
    ),
    Mutation(
        "a child's shard forgets how far its parent is folded",
        "cqrs_cli/deciding/inherit.py",
        (
            (
                "before = folded = inherited.get(split.partition, FoldedOfParent())",
                "before = folded = FoldedOfParent()",
            ),
        ),
        "tests/deciding/rebuild/test_grown.py::test_targets_fold_before_the_split",
    ),
    Mutation(
        "a child asks for the logs that its shard has",
        "cqrs_cli/deciding/inherit.py",
        (("if folded_before.outcomes < split.outcomes:", "if True:"),),
        "tests/deciding/test_inherit.py::test_no_log_is_read_twice",
    ),
    Mutation(
        "a child's shard may be ahead of its parent",
        "cqrs_cli/deciding/inherit.py",
        (("if folded.commands > split.commands:", "if folded.commands < 0:"),),
        "tests/deciding/rebuild/test_grown.py::test_shard_ahead_of_log_is_rebuilt",
    ),
    Mutation(
        "a child's shard may be made behind the split",
        "cqrs_cli/deciding/inherit.py",
        (("if folded.outcomes > split.outcomes:", "if folded.outcomes < 0:"),),
        "tests/deciding/rebuild/test_grown.py::test_shard_before_the_split_is_rebuilt",
    ),
    Mutation(
        "a child's shard is made behind an old split",
        "cqrs_cli/deciding/inherit.py",
        (("lineage.split_creating(child) or _split_as_of_now(parent)", "_split_as_of_now(parent)"),),
        "tests/deciding/rebuild/test_grown.py::test_second_repartitioning_uses_prepared_shards",
    ),
    Mutation(
        "a child is not warm before the split",
        "cqrs_cli/deciding/catch_up.py",
        (("        inherit_before_split(log, aggregate, cache, assigned_keys, window)\n", ""),),
        "tests/deciding/rebuild/test_grown.py::test_target_shards_are_built_before_repartitioning",
    ),
]
