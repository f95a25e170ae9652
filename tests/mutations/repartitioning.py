"""The mutations of repartitioning: rules of the partition history, of forwarding, and of imported data."""

from tests.mutations.table import Mutation

_LINEAGE_TESTS = "tests/keyspace/test_lineage.py"
_KEY_SPACE_TESTS = "tests/keyspace/test_key_space.py"
_CHECK_TESTS = "tests/core/test_checks.py"
_VERIFICATION_TESTS = "tests/proof/test_repartitioning.py"
_PENDING_PARTITION_TESTS = "tests/deciding/test_pending_partitions.py"
_HANGING_TRANSACTION_TESTS = "tests/scenarios/crashes/hanging/test_parts.py"

REPARTITIONING = [
    Mutation(
        "a repartitioning request counts although it is outdated",
        "cqrs_cli/keyspace/lineage.py",
        (
            (
                "if record.before != self.counts[-1] or not self.is_valid_next_count(record.after):",
                "if False:",
            ),
        ),
        f"{_LINEAGE_TESTS}::test_first_request_wins",
    ),
    Mutation(
        "two repartitionings become one split",
        "cqrs_cli/keyspace/lineage.py",
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
        "cqrs_cli/keyspace/lineage.py",
        (
            (
                "None if step is None or step[1] > topic_partitions else step[1]",
                "None if step is None else step[1]",
            ),
        ),
        f"{_LINEAGE_TESTS}::test_request_waits_for_the_topics",
    ),
    Mutation(
        "a reader starts with a child before the split",
        "cqrs_cli/keyspace/lineage.py",
        (("        return position >= split.events and", "        return position >= 0 or"),),
        f"{_LINEAGE_TESTS}::test_reader_starts_after_the_split",
    ),
    Mutation(
        "a reader starts with a grandchild before the grandparent's events",
        "cqrs_cli/keyspace/lineage.py",
        (("and (position > 0 or self.is_ready(parent, positions))", ""),),
        f"{_KEY_SPACE_TESTS}::test_child_is_ready_after_splits",
    ),
    Mutation(
        "a segment ends before the split",
        "cqrs_cli/keyspace/key_space.py",
        (("max(start, min(end, split.events))", "max(start, min(end, split.events - 1))"),),
        f"{_KEY_SPACE_TESTS}::test_segments_cover_each_record_once",
    ),
    Mutation(
        "a child reads only its parent, not its grandparent",
        "cqrs_cli/keyspace/lineage.py",
        (("            *self.segments(parent)[:-1],\n", ""),),
        f"{_KEY_SPACE_TESTS}::test_segments_cover_each_record_once",
    ),
    Mutation(
        "a command with a moved key is rejected instead of forwarded",
        "cqrs_cli/core/checks.py",
        (("(target := forward_target_of(key)) is not None", "(target := forward_target_of(key)) == -1"),),
        f"{_CHECK_TESTS}::test_commands_of_moved_keys_are_forwarded",
    ),
    Mutation(
        "a parent splits before its children are ready",
        "cqrs_cli/deciding/pending_partitions.py",
        (('    if assigned_keys.phase == "settle":\n', "    if False:\n"),),
        f"{_PENDING_PARTITION_TESTS}::test_a_parent_waits_for_its_child",
    ),
    Mutation(
        "a parent splits at the ends that an outdated leader returned",
        "cqrs_cli/deciding/split.py",
        (("        session.writer.prove_log_ends()\n", "        pass\n"),),
        "tests/deciding/test_outdated_leader.py::test_split_with_outdated_ends_is_not_committed",
    ),
    Mutation(
        "the abort of a probe counts as a commit",
        "cqrs_cli/kafka/expected_offsets.py",
        (("            if is_committed:\n", "            if True:\n"),),
        "tests/kafka/test_expected_offsets.py::test_missing_abort_marker_is_found",
    ),
    Mutation(
        "a child that waits for the split does not fold",
        "cqrs_cli/deciding/split.py",
        (("        catch_up()\n", ""),),
        f"{_PENDING_PARTITION_TESTS}::test_a_child_folds_while_it_waits",
    ),
    Mutation(
        "a child recovers after the split although another run has taken over",
        "cqrs_cli/deciding/split.py",
        (("    session.check_claim()  # another run may have taken over since the last check\n", ""),),
        f"{_PENDING_PARTITION_TESTS}::test_takeover_during_the_wait_quarantines_nothing",
    ),
    Mutation(
        "catching up before the fence stops too early",
        "cqrs_cli/deciding/catch_up.py",
        (
            (
                "        if duration < _SHORT_FOLD or duration > previous_duration / 2:\n",
                "        if previous_duration:\n",
            ),
        ),
        "tests/deciding/test_catch_up.py::test_catching_up_stops_when_useless",
    ),
    Mutation(
        "a fenced owner does not poll for its successor's claim",
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
        "the shard of a child is folded before its split",
        "cqrs_cli/deciding/catch_up.py",
        (('assigned_keys.phase == "wait"', "False"),),
        "tests/scenarios/takeovers/test_races.py::test_activated_child_partition_is_not_folded",
    ),
    Mutation(
        "a shard without outcomes keeps its deferred commands",
        "cqrs_cli/deciding/deferred_fold.py",
        (("    if cache.positions.outcomes == 0 and cache.has_deferred:", "    if False:"),),
        "tests/deciding/test_deferred_fold.py::test_entries_without_outcomes_are_folded_again",
    ),
    Mutation(
        "hidden forwarded commands are not searched for",
        "cqrs_cli/deciding/owner.py",
        (("        session.check_commands()\n", ""),),
        f"{_HANGING_TRANSACTION_TESTS}::test_half_a_repartitioning_is_resolved[forwarded commands missing]",
    ),
    Mutation(
        "a forwarded command may exceed the size limit",
        "cqrs_cli/core/batch_state.py",
        (("        if not self.deferrals.fits_commands_topic(key, value):\n", "        if False:\n"),),
        f"{_CHECK_TESTS}::test_forwarding_needs_room",
    ),
    Mutation(
        "an inherited entry has the record key of another entry",
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
        "a partition history without requests hides manually added partitions",
        "cqrs_cli/deciding/prepare.py",
        (("if not key_spaces[name].was_repartitioned:", "if described.lineage_id is None:"),),
        "tests/deciding/test_repartition.py::test_lineage_without_request_adopts_nothing",
    ),
    Mutation(
        "a split may record a clock that is too early",
        "cqrs_cli/proof/split_clock.py",
        (("split.clock < self._clock or", "False or"),),
        f"{_VERIFICATION_TESTS}::test_split_has_the_clock_of_its_outcomes",
    ),
    Mutation(
        "a split may record a clock that is too late",
        "cqrs_cli/proof/split_clock.py",
        (("(self._has_all_outcomes and split.clock > self._clock)", "False"),),
        f"{_VERIFICATION_TESTS}::test_split_has_the_clock_of_its_outcomes",
    ),
    Mutation(
        "a clock later than the retained outcomes is a violation",
        "cqrs_cli/proof/split_clock.py",
        (("start == 0 and scope.loss is None", "True"),),
        f"{_VERIFICATION_TESTS}::test_deleted_outcomes_may_be_later",
    ),
    Mutation(
        "a parent may keep deferred commands of keys that it handed over",
        "cqrs_cli/keyspace/key_history.py",
        (("offset >= split.deferred\n                and owned_key\n", "False\n"),),
        f"{_VERIFICATION_TESTS}::test_moved_keys_leave_the_parent",
    ),
    Mutation(
        "a parent may write tombstones of handed-over keys after the split",
        "cqrs_cli/proof/deferred_log.py",
        (("outcome = find_outcome(self._outcomes, position) if entry is None else None", "outcome = None"),),
        f"{_VERIFICATION_TESTS}::test_moved_keys_leave_the_parent",
    ),
    Mutation(
        "a child may import entries of commands after the split",
        "cqrs_cli/keyspace/key_history.py",
        (("split.deferred > offset and split.commands <= command", "False"),),
        f"{_VERIFICATION_TESTS}::test_later_deferrals_are_not_inherited",
    ),
    Mutation(
        "a child's shard forgets the position of its parent's fold",
        "cqrs_cli/deciding/inherit.py",
        (
            (
                "before = folded = inherited_offsets.get(split.partition, FoldedOfParent())",
                "before = folded = FoldedOfParent()",
            ),
        ),
        "tests/deciding/rebuild/test_grown.py::test_children_fold_before_the_split",
    ),
    Mutation(
        "a child reads its parents' logs again",
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
        "a child's shard may contain outcomes after the split",
        "cqrs_cli/deciding/inherit.py",
        (("if folded.outcomes > split.outcomes:", "if folded.outcomes < 0:"),),
        "tests/deciding/rebuild/test_grown.py::test_shard_before_the_split_is_rebuilt",
    ),
    Mutation(
        "a child's shard is built to the present instead of an earlier split",
        "cqrs_cli/deciding/inherit.py",
        (("split or _split_as_of_now(parent)", "_split_as_of_now(parent)"),),
        "tests/deciding/rebuild/test_grown.py::test_second_repartitioning_uses_prepared_shards",
    ),
    Mutation(
        "a child reads the keys before the end of its parent's events is known",
        "cqrs_cli/deciding/inherit.py",
        (
            (
                "        end = split or _split_as_of_now(parent)\n",
                "        cache.read_keys(key_filter)\n        end = split or _split_as_of_now(parent)\n",
            ),
            (
                "        cache.read_keys(key_filter)\n        _fold_parent(",
                "        _fold_parent(",
            ),
        ),
        "tests/deciding/test_personal_places.py::test_parent_may_decide_while_its_child_reads",
    ),
    Mutation(
        "a child's shard is not prepared before the split",
        "cqrs_cli/deciding/catch_up.py",
        (("        inherit_before_split(log, aggregate, cache, assigned_keys, window)\n", ""),),
        "tests/deciding/rebuild/test_grown.py::test_child_shards_are_built_before_repartitioning",
    ),
]
