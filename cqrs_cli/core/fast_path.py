"""The fast path: checks 1 to 10 of an `OrdinaryCommand` in one function, without the checks that it always passes.

tests/core/test_fast_path.py compares its results with the separate checks of `core.decide`.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from msgspec import UNSET, Raw, UnsetType

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.errors import is_interrupt
from cqrs_cli.core.checks import fingerprint_function
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decision_in_progress import CheckedCommand
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.attributes import plain_shared
from cqrs_cli.core.messages.command import OrdinaryCommand, read_ordinary
from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.fingerprint import fingerprint_of_type
from cqrs_cli.core.messages.nesting import check_nesting
from cqrs_cli.core.messages.record import Record

_BACKSLASH = ord("\\")

#: The decoder and the fingerprint function of a command type, and whether a command may have a plain member with the
#: shape of an encrypted value.
_CommandType: TypeAlias = tuple[Callable[[bytes], Command], Callable[[Raw | bytes, str | None], int], bool]

#: Returns a command that passes all checks; the second argument is the record's timestamp as text. If a check might
#: fail, it returns None, and changes at most the bound `greatest_id`: then `core.decide` runs the checks one by one.
FastPath = Callable[[Record, str], CheckedCommand | None]


def fast_path(aggregate: Aggregate, context: BatchContext, decisions: Decisions) -> FastPath:
    """Return the fast path for one batch. Attribute lookups happen here, once instead of for each command."""
    states, dedup_entries, deferrals = decisions.states, decisions.dedup_entries, context.deferrals
    state_of, dedup_entry_of = context.state_of, context.dedup_entry_of
    partition, partition_of = context.partition, context.partition_of
    excluded_offsets = context.force_failed | context.poison_reasons.keys()
    may_look_encrypted, may_nest = aggregate.personal.may_look_encrypted, aggregate.may_nest
    command_types = _command_types(aggregate)

    def check(record: Record, time: str) -> CheckedCommand | None:
        envelope = read_ordinary(record)  # 1, 2
        if envelope is None or deferrals.active or record.offset in excluded_offsets:
            return None
        key, value, data = record.key or b"", record.value or b"", envelope.data
        subject, command_id, command_type = envelope.subject, envelope.id, command_types.get(envelope.type)
        if key != subject.encode() or command_type is None:  # 3, 6
            return None
        decode, fingerprint_of, searches_for_encrypted = command_type
        state_before = states.get(subject)
        if state_before is None:  # otherwise, an earlier command of the batch has passed check 4
            if partition_of is not None and partition_of(key) != partition:  # 4
                return None
            state_before = state_of(subject)
        if command_id > decisions.greatest_id:  # 5
            decisions.greatest_id = command_id
        elif (subject, command_id) in dedup_entries or dedup_entry_of(subject, command_id) is not None:
            return None
        try:
            if searches_for_encrypted and may_look_encrypted(value):  # the value contains the data
                return None
            if may_nest:
                check_nesting(bytes(data))
            command = decode(data)  # 7
            expected = UNSET if envelope.expectedversion is UNSET else _expected(envelope, state_before)
        except BaseException as error:  # also from the command's own `__post_init__`
            if is_interrupt(error):
                raise
            return None
        if _BACKSLASH in value or (shared := plain_shared(envelope, time)) is None:
            shared = envelope.shared_members(time)
        fingerprint = fingerprint_of(data, expected or None)
        return record, envelope, shared, command, state_before, fingerprint, expected

    return check


def _expected(envelope: OrdinaryCommand, state_before: VersionedState | None) -> str | UnsetType:
    """Checks 8 and 10: return the expected version; raises `ValueError` if it is invalid, or does not match."""
    text = envelope.expected_text()
    if text is not None and parse_expected(text).mismatch(state_before.version if state_before else 0):
        raise ValueError("another version")
    return UNSET if text is None else text


def _command_types(aggregate: Aggregate) -> dict[str, _CommandType]:
    fingerprint = fingerprint_function(aggregate)
    return {
        wire_type: (
            aggregate.decode_command[wire_type],
            partial(fingerprint, wire_type)
            if aggregate.has_personal_fields
            else fingerprint_of_type(wire_type),
            cls in aggregate.classes_to_search,
        )
        for wire_type, cls in aggregate.commands.items()
    }
