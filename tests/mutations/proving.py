"""The mutations of `verify`, each rule of which is left out, and of what else operators are told."""

from tests.mutations.table import Mutation

#: The rules of the proof that were added one by one.
PROVING = [
    Mutation(
        "a duplicate may point to a failed command",
        "cqrs_cli/proof/verdict.py",
        (('verdict.original.status not in (*REMEMBERED, "deferred")', "False"),),
        "tests/proof/test_duplicates.py::test_duplicate_of_failed_command_is_found",
    ),
    Mutation(
        "an outcome may name a command that was not read",
        "cqrs_cli/proof/verdict.py",
        (("        if named:\n", "        if False:\n"),),
        "tests/proof/test_unread.py::test_name_of_unread_command_is_found",
    ),
    Mutation(
        "an outcome may give the type of a command that was not read",
        "cqrs_cli/proof/verdict.py",
        (('outcome.type != "cqrs.failed"', "False"),),
        "tests/proof/test_unread.py::test_type_of_unread_command_is_found",
    ),
    Mutation(
        "the names of a command with another key are not compared",
        "cqrs_cli/proof/checks.py",
        (("    if found != wanted:\n", '    if found != wanted and outcome.reason != "KEY_MISMATCH":\n'),),
        "tests/proof/test_unread.py::test_names_follow_the_key",
    ),
    Mutation(
        "the dead letter of a given-up command may keep its bytes",
        "cqrs_cli/proof/rules.py",
        (("(dead_letter.value, dead_letter.headers) != checksums(None, None)", "False"),),
        "tests/proof/test_dead_letters.py::test_given_up_command_with_bytes",
    ),
    Mutation(
        "given-up commands are not counted",
        "cqrs_cli/proof/rules.py",
        (("self.given_up += given_up(outcome)", "pass"),),
        "tests/proof/test_dead_letters.py::test_given_up_commands_are_counted",
    ),
    Mutation(
        "events are not read with the aggregate's code",
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
        (("        _members(event.data)\n", ""),),
        "tests/proof/test_events.py::test_data_of_no_event",
    ),
    Mutation(
        "stopping passes commands that nobody has decided",
        "cqrs_cli/deciding/session.py",
        ((' and self.log.first_record("commands", offset, end) is None', ""),),
        "tests/scenarios/losses/test_aborted.py::test_stopping_passes_no_command",
    ),
    Mutation(
        "stopping leaves aborted records to retention",
        "cqrs_cli/deciding/session.py",
        (("return end if left else offset", "return offset"),),
        "tests/scenarios/losses/test_aborted.py::test_stopping_passes_aborted_records",
    ),
    Mutation(
        "owners begin without making room for their files",
        "cqrs_cli/runs/task.py",
        (('make_room(_needs(plan, share), f"a task that owns {len(share)} partitions")', "pass"),),
        "tests/scenarios/takeovers/test_limits.py::test_soft_limit_is_raised",
    ),
    Mutation(
        "a transaction that hides commands is not named",
        "cqrs_cli/deciding/explain.py",
        (("return [one for one in found if not one.is_young(now)]", "return []"),),
        "tests/cli/commands/test_status.py::test_status_names_hiding_transaction",
    ),
]
