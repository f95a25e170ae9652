"""The mutations of `verify`, each of whose rules is omitted, and of other reports to operators."""

from tests.mutations.table import Mutation

_REPARTITIONING_TESTS = "tests/proof/test_repartitioning.py"
_MEMBER_TESTS = "tests/proof/test_members.py"

#: The rules of verification that were added one by one.
VERIFICATION = [
    Mutation(
        "a duplicate may point to a failed command",
        "cqrs_cli/proof/verdict.py",
        (('verdict.original.status not in (*REMEMBERED, "deferred")', "False"),),
        "tests/proof/test_duplicates.py::test_duplicate_of_failed_command_is_found",
    ),
    Mutation(
        "an outcome may contain names from an unreadable command",
        "cqrs_cli/proof/verdict.py",
        (("        if present:\n", "        if False:\n"),),
        "tests/proof/test_unreadable_commands.py::test_name_of_unread_command_is_found",
    ),
    Mutation(
        "an outcome may have the type of an unreadable command",
        "cqrs_cli/proof/verdict.py",
        (('outcome.type != "cqrs.failed"', "False"),),
        "tests/proof/test_unreadable_commands.py::test_type_of_unread_command_is_found",
    ),
    Mutation(
        "names are not checked for a command with a mismatched key",
        "cqrs_cli/proof/outcome_checks.py",
        (
            (
                "    if actual != expected_ids:\n",
                '    if actual != expected_ids and outcome.reason != "KEY_MISMATCH":\n',
            ),
        ),
        "tests/proof/test_unreadable_commands.py::test_names_follow_the_key",
    ),
    Mutation(
        "the dead letter of a given-up command may keep its bytes",
        "cqrs_cli/proof/rules.py",
        (("(dead_letter.value_checksum, dead_letter.headers_checksum) != checksums(None, None)", "False"),),
        "tests/proof/test_dead_letters.py::test_given_up_command_with_bytes",
    ),
    Mutation(
        "given-up commands are not counted",
        "cqrs_cli/proof/rules.py",
        (("self.given_up += was_given_up(outcome)", "pass"),),
        "tests/proof/test_dead_letters.py::test_given_up_commands_are_counted",
    ),
    Mutation(
        "events are not decoded with the aggregate's code",
        "cqrs_cli/scans/verify/task.py",
        (
            (
                "check_shape if self.aggregate is None else partial(decode_event, self.aggregate)",
                "check_shape",
            ),
        ),
        "tests/jobs/verify/test_faults.py::test_event_that_code_cannot_read",
    ),
    Mutation(
        "the data of events may be anything without the code",
        "cqrs_cli/proof/scope.py",
        (("        read_members(event.data)\n", ""),),
        "tests/proof/test_events.py::test_data_without_fields_is_found",
    ),
    Mutation(
        "stopping skips undecided commands",
        "cqrs_cli/deciding/session.py",
        ((' and self.log.first_record("commands", offset, end) is None', ""),),
        "tests/scenarios/losses/test_aborted.py::test_stopping_passes_no_command",
    ),
    Mutation(
        "stopping leaves aborted records to retention",
        "cqrs_cli/deciding/session.py",
        (("return end if only_control_records else offset", "return offset"),),
        "tests/scenarios/losses/test_aborted.py::test_stopping_passes_aborted_records",
    ),
    Mutation(
        "owners start without raising the limit of open files",
        "cqrs_cli/runs/task.py",
        (
            (
                'raise_soft_limits(_task_needs(plan, partitions), f"a task that owns {len(partitions)} partitions")',
                "pass",
            ),
        ),
        "tests/scenarios/takeovers/test_limits.py::test_soft_limit_is_raised",
    ),
    Mutation(
        "a transaction that hides commands is not named",
        "cqrs_cli/deciding/errors.py",
        (
            (
                "return [transaction for transaction in transactions if not transaction.is_young(now)]",
                "return []",
            ),
        ),
        "tests/cli/commands/test_status.py::test_status_names_hiding_transaction",
    ),
    Mutation(
        "a parent may decide commands of its child",
        "cqrs_cli/proof/outcome_checks.py",
        (("elif outcome.movedto != target and not", "elif False and not"),),
        f"{_REPARTITIONING_TESTS}::test_parent_decides_for_its_target",
    ),
    Mutation(
        "a command may be forwarded from its own partition",
        "cqrs_cli/proof/outcome_checks.py",
        ((" or outcome.movedto is not None:", ":"),),
        f"{_REPARTITIONING_TESTS}::test_key_in_its_partition_is_not_forwarded",
    ),
    Mutation(
        "keys are assigned by the latest partition count",
        "cqrs_cli/keyspace/key_history.py",
        (
            (
                "return self._count_after_splits(lambda split: split.commands <= command_offset)",
                "return self._count_after_splits(lambda split: True)",
            ),
        ),
        f"{_REPARTITIONING_TESTS}::test_correct_owners_cause_no_violation",
    ),
    Mutation(
        "a parent may write events of moved keys",
        "cqrs_cli/keyspace/key_history.py",
        (
            (
                "return self.partition_among(key, self._count_after_splits(lambda split: split.events <= offset))",
                "return self.partition_among(key, self.lineage.first_count(self.partition))",
            ),
        ),
        f"{_REPARTITIONING_TESTS}::test_parent_decides_for_its_target",
    ),
    Mutation(
        "a split need not separate the records before and after it",
        "cqrs_cli/keyspace/key_history.py",
        (("if (command_offset < split.commands) != (offset < end):", "if False:"),),
        f"{_REPARTITIONING_TESTS}::test_split_names_the_ends_of_logs",
    ),
    Mutation(
        "a child may decide before its activation",
        "cqrs_cli/keyspace/key_history.py",
        (("return self.lineage.is_activated(self.partition)", "return True"),),
        f"{_REPARTITIONING_TESTS}::test_targets_are_activated_before_deciding",
    ),
    Mutation(
        "a child is verified without its parents' ids",
        "cqrs_cli/proof/dedup_index.py",
        (
            (
                "        self._ids[subject, command_id] = decision\n",
                "        if self.parent is None:\n            self._ids[subject, command_id] = decision\n",
            ),
        ),
        f"{_REPARTITIONING_TESTS}::test_ids_are_known_at_the_target",
    ),
    Mutation(
        "a child is verified without its parents' versions",
        "cqrs_cli/proof/dedup_index.py",
        (
            (
                "        self._states[aggregate_id] = StoredState(",
                "        (self._states if self.parent is None else {})[aggregate_id] = StoredState(",
            ),
        ),
        f"{_REPARTITIONING_TESTS}::test_correct_owners_cause_no_violation",
    ),
    Mutation(
        "a child is verified without its parents' deferred commands",
        "cqrs_cli/proof/rules.py",
        (("update(open_deferrals or {})", "update({})"),),
        f"{_REPARTITIONING_TESTS}::test_correct_owners_cause_no_violation",
    ),
    Mutation(
        "deferred commands of parents may get lost",
        "cqrs_cli/proof/deferrals.py",
        (
            (
                '                self._findings.add_violation("deferred", self._scope.starts',
                '                (lambda *_: None)("deferred", self._scope.starts',
            ),
        ),
        f"{_REPARTITIONING_TESTS}::test_deferred_commands_move_to_targets",
    ),
    Mutation(
        "a duplicate may point to any command of a parent",
        "cqrs_cli/proof/findings.py",
        (("return offset < self.parents.get(partition, 0)", "return True"),),
        f"{_REPARTITIONING_TESTS}::test_repetition_points_to_the_parent",
    ),
    Mutation(
        "a forwarded command may have any due time",
        "cqrs_cli/proof/outcomes.py",
        (('if data.reason == "MOVED" and data.due != outcome.time:', "if False:"),),
        f"{_REPARTITIONING_TESTS}::test_altered_forward_is_found",
    ),
    Mutation(
        "forwarded commands are not counted",
        "cqrs_cli/proof/forwarded_commands.py",
        (
            (
                "                self._forwarded_to, outcome.movedto",
                "                {}, outcome.movedto",
            ),
        ),
        f"{_REPARTITIONING_TESTS}::test_forwarded_commands_are_compared",
    ),
    Mutation(
        "a copy of a forwarded command is reported as lost",
        "cqrs_cli/proof/forwarded_commands.py",
        (("if copy_origin is None or copy_origin not in missing:", "if copy_origin is None:"),),
        f"{_REPARTITIONING_TESTS}::test_lost_command_is_named",
    ),
    Mutation(
        "an outcome may have any members",
        "cqrs_cli/proof/outcomes.py",
        (("            if wrong_members:\n", "            if False:\n"),),
        f"{_MEMBER_TESTS}::test_every_changed_member_is_found",
    ),
    Mutation(
        "a dead letter may have another message",
        "cqrs_cli/proof/rules.py",
        (("if checksums_differ(dead_letter.message_checksum, outcome.message_checksum):", "if False:"),),
        f"{_MEMBER_TESTS}::test_every_changed_header_is_found",
    ),
    Mutation(
        "an accepted outcome may have a code",
        "cqrs_cli/proof/verdict.py",
        (('if (verdict.code is not UNSET) != (reason == "BUSINESS_RULE"):', "if False:"),),
        "tests/proof/deferred/test_verdicts.py::test_inconsistency_is_explained",
    ),
    Mutation(
        "a split may be beyond the log",
        "cqrs_cli/proof/partition.py",
        (("if offset > end:", "if False:"),),
        f"{_MEMBER_TESTS}::test_split_beyond_the_log_is_found",
    ),
    Mutation(
        "events before the first command are not verified",
        "cqrs_cli/proof/reactions.py",
        (("if reacted.start is None else", "if True else"),),
        "tests/proof/process/test_reactions.py::test_first_commands_are_not_missed",
    ),
    Mutation(
        "a forwarded command is compared by its position and id",
        "cqrs_cli/proof/forwarded_commands.py",
        (('(record.value or b""), digest_size=8', 'b"", digest_size=8'),),
        f"{_REPARTITIONING_TESTS}::test_altered_copy_is_named",
    ),
    Mutation(
        "the copy of a deleted command may have other data",
        "cqrs_cli/proof/forwarded_commands.py",
        (("return has_same_ids and fits_document(envelope, fingerprint, fits)", "return has_same_ids"),),
        f"{_REPARTITIONING_TESTS}::test_altered_copy_is_named",
    ),
    Mutation(
        "a process manager's forwarded command is compared by its position",
        "cqrs_cli/following/processes/sent_commands.py",
        (
            (
                "if digest in (original_digest, self._forwarded_copies.get(original)):",
                "if original_digest or original in self._forwarded_copies:",
            ),
        ),
        "tests/following/processes/test_sent_commands.py::test_altered_copy_is_a_second_one",
    ),
    Mutation(
        "a forwarded copy is a second command of a process",
        "cqrs_cli/following/processes/sent_commands.py",
        (("if digest in (original_digest, self._forwarded_copies.get(original)):", "if False:"),),
        "tests/following/processes/test_sent_commands.py::test_forwarded_copy_is_no_second_one",
    ),
    Mutation(
        "commands from before a repartitioning are reported as missing",
        "cqrs_cli/proof/reactions.py",
        (("return self.partition, *self.earlier_partitions", "return (self.partition,)"),),
        "tests/proof/process/test_reactions.py::test_command_from_before_repartitioning_matches",
    ),
    Mutation(
        "a forwarded command counts as deferred in its old partition",
        "cqrs_cli/scans/whatif/deferred_before.py",
        ((" and verdict.reason != Reason.MOVED.name", ""),),
        "tests/jobs/whatif/test_settings.py::test_forwarded_commands_are_not_deferred",
    ),
    Mutation(
        "a simulation of a child starts later than that of its parent",
        "cqrs_cli/scans/whatif/task.py",
        (("if plan.since is None or is_whole else", "if plan.since is None else"),),
        "tests/jobs/whatif/test_repartitioned.py::test_child_starts_as_early_as_its_parent",
    ),
]
