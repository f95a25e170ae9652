"""The checks 3 to 10 of ordinary commands in one function, which leaves out what their type has passed.

It gives what `core.decide` gives, or leaves the command to it (tests/core/test_plain.py holds both against each other).
"""

from collections.abc import Callable

from msgspec import UNSET

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.case import Case
from cqrs_cli.core.checks import fingerprint_of
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.messages.command import OrdinaryCommand
from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.nesting import check_nesting
from cqrs_cli.core.personal.sealed_data import may_look_sealed

#: The command if it passes, from its case, key and envelope; None if a check may say no. Then nothing has happened, and
#: the checks are made one by one.
PlainChecks = Callable[[Case, bytes, OrdinaryCommand], Command | None]


def plain_checks(aggregate: Aggregate, context: BatchContext, done: Decisions) -> PlainChecks:
    """The checks of one batch. What they need for each command is looked up once."""
    states, remembered = done.states, done.remembered
    state_of, remembered_of = context.state, context.remembered
    partition, partition_of = context.partition, context.partition_of
    decoders, may_nest = aggregate.decode_command, aggregate.may_nest
    fingerprint, classes = fingerprint_of(aggregate), aggregate.may_look_sealed
    searched = {kind for kind, cls in aggregate.commands.items() if cls in classes}

    def passed(case: Case, key: bytes, envelope: OrdinaryCommand) -> Command | None:
        subject, kind, data = envelope.subject, envelope.type, envelope.data
        if key != subject.encode() or kind not in decoders:
            return None
        if partition_of is not None and partition_of(key) != partition:
            return None
        if (subject, envelope.id) in remembered or remembered_of(subject, envelope.id) is not None:
            return None
        before, expected = states.get(subject) or state_of(subject), None
        if envelope.expectedversion is not UNSET:
            expected = envelope.expected_text()
            if expected is not None and not _holds(expected, before.version if before else 0):
                return None
        try:
            if kind in searched and may_look_sealed(case.record.value or b""):  # its data are in it
                return None
            if may_nest:
                check_nesting(bytes(data))
            command = decoders[kind](data)
        except KeyboardInterrupt:
            raise
        except BaseException:  # of the command's own `__post_init__`, too: check 7 finds the reason
            return None
        if expected is not None:
            case.expected = expected
        case.before, case.mark = before, fingerprint(kind, data, expected)
        return command

    return passed


def _holds(expected: str, version: int) -> bool:
    try:
        return parse_expected(expected).refusal(version) is None
    except ValueError:
        return False
