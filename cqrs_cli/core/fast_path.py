"""The fast path: checks 3 to 10 of an `OrdinaryCommand` in one function. Checks that an `OrdinaryCommand` always passes
are left out.

It returns the same command as the checks of `core.decide`, or None if `core.decide` has to run its checks.
tests/core/test_fast_path.py compares the outcomes of both.
"""

from collections.abc import Callable

from msgspec import UNSET

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.errors import is_interrupt
from cqrs_cli.core.checks import fingerprint_function
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decision_in_progress import DecisionInProgress
from cqrs_cli.core.messages.command import OrdinaryCommand
from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.nesting import check_nesting

#: Called with a decision, the record's key and the envelope. Returns the command if it passes all checks. If a check
#: might fail, it returns None and changes nothing; then `core.decide` runs the checks one by one.
FastPathChecks = Callable[[DecisionInProgress, bytes, OrdinaryCommand], Command | None]


def fast_path_checks(aggregate: Aggregate, context: BatchContext, decisions: Decisions) -> FastPathChecks:
    """Return the fast path for one batch. Attribute lookups happen here, once instead of for each command."""
    states, dedup_entries = decisions.states, decisions.dedup_entries
    state_of, dedup_entry_of = context.state_of, context.dedup_entry_of
    partition, partition_of = context.partition, context.partition_of
    decoders, may_nest = aggregate.decode_command, aggregate.may_nest
    fingerprint, classes_to_search = fingerprint_function(aggregate), aggregate.may_look_encrypted
    may_look_encrypted = aggregate.personal.may_look_encrypted
    types_to_search = {wire_type for wire_type, cls in aggregate.commands.items() if cls in classes_to_search}

    def run_checks(decision: DecisionInProgress, key: bytes, envelope: OrdinaryCommand) -> Command | None:
        subject, wire_type, data = envelope.subject, envelope.type, envelope.data
        if key != subject.encode() or wire_type not in decoders:
            return None
        if partition_of is not None and partition_of(key) != partition:
            return None
        if (subject, envelope.id) in dedup_entries or dedup_entry_of(subject, envelope.id) is not None:
            return None
        state_before, expected = states.get(subject) or state_of(subject), None
        if envelope.expectedversion is not UNSET:
            expected = envelope.expected_text()
            if expected is not None and not _matches_version(
                expected, state_before.version if state_before else 0
            ):
                return None
        try:
            if wire_type in types_to_search and may_look_encrypted(
                decision.record.value or b""
            ):  # the value contains the data
                return None
            if may_nest:
                check_nesting(bytes(data))
            command = decoders[wire_type](data)
        except (
            BaseException
        ) as error:  # also from the command's own `__post_init__`: check 7 finds the reason
            if is_interrupt(error):
                raise
            return None
        if expected is not None:
            decision.expected_version = expected
        decision.state_before, decision.fingerprint = state_before, fingerprint(wire_type, data, expected)
        return command

    return run_checks


def _matches_version(expected: str, version: int) -> bool:
    try:
        return parse_expected(expected).mismatch(version) is None
    except ValueError:
        return False
