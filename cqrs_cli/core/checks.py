"""The checks of a command before `decide` is called. A check raises `CheckFailed` if the command fails it.

Each check has its number in docs/messages.md; core/decide.py calls the checks in the order of their numbers.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec import UNSET

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS, is_interrupt
from cqrs_cli.core.context import BatchContext, Payloads
from cqrs_cli.core.messages.command import MAX_ATTRIBUTE, CommandEnvelope
from cqrs_cli.core.messages.expected_version import VersionCondition, parse_expected
from cqrs_cli.core.messages.fingerprint import Fingerprint, fingerprint, fingerprint_without
from cqrs_cli.core.messages.nesting import check_nesting
from cqrs_cli.core.messages.outcome import Original
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.core.reserved import RESERVED_COMMANDS
from cqrs_cli.core.stored import DedupEntry

_NOT_FETCHED = "it was not downloaded: datasha256 is written with escapes, or no payload_store is set"


def without_unsafe_parts(record: Record) -> Record:
    """Return the record without value and headers, and without a key that is longer than a valid subject.

    The result is for the dead letter of a command that an operator gave up (`run --fail`): the broker might refuse a
    dead letter with the omitted parts.
    """
    keeps_key = record.key is not None and len(record.key) <= MAX_ATTRIBUTE
    return Record(record.offset, record.timestamp, record.key if keeps_key else None)


def require_key(key: bytes | None) -> bytes:
    """Check 1: return the key if it is not empty."""
    if not key:
        raise CheckFailed(Reason.KEY_MISSING, "the record has no key: send the aggregate id as key")
    return key


def check_key(key: bytes, subject: str) -> None:
    """Check 3: the key equals the subject."""
    if key != subject.encode():
        raise CheckFailed(Reason.KEY_MISMATCH, "the record's key is not the subject")


def check_partition(key: bytes, context: BatchContext) -> int | None:
    """Check 4: return the child partition to forward to if the key has moved away, None if the key belongs here."""
    partition_of, forward_target_of = context.partition_of, context.forward_target_of
    if partition_of is None or (key_partition := partition_of(key)) == context.partition:
        return None
    if forward_target_of is not None and (target := forward_target_of(key)) is not None:
        return target
    raise CheckFailed(
        Reason.WRONG_PARTITION,
        f"{key.decode()!r} belongs to partition {key_partition}: the sender uses another partitioner",
    )


def fingerprint_function(aggregate: Aggregate) -> Fingerprint:
    """Return the function that computes fingerprints of an aggregate's commands; it leaves out personal fields."""
    return fingerprint_without(personal_members(aggregate)) if aggregate.has_personal_fields else fingerprint


def personal_members(aggregate: Aggregate) -> Mapping[str, frozenset[str]]:
    """Return the names of the personal members in the data of commands, by command type."""
    members = {wire_type: frozenset[str]() for wire_type in RESERVED_COMMANDS}
    for wire_type, cls in aggregate.commands.items():
        members[wire_type] = frozenset(field.wire_name for field in aggregate.personal.fields_of(cls))
    return members


def check_id(first_decision: DedupEntry | None, fingerprint: int, window_start: int) -> Original | None:
    """Check 5: return the first decision on the id if the command is a duplicate, else None.

    `fingerprint` is the command's fingerprint. Decisions before the time `window_start` (ms) do not count.
    """
    if first_decision is None or first_decision.timestamp < window_start:
        return None
    partition = UNSET if first_decision.partition is None else first_decision.partition
    original = Original(
        first_decision.offset, first_decision.status, first_decision.version, first_decision.events, partition
    )
    if fingerprint == first_decision.fingerprint:
        return original
    raise CheckFailed(
        Reason.ID_REUSED,
        f"the id was used for another command, at offset {first_decision.offset}",
        original=original,
    )


def decoder_of(aggregate: Aggregate, type: str) -> Callable[[bytes], Command]:
    """Check 6: return the decoder of the command's type."""
    decode = aggregate.decode_command.get(type)
    reserved = RESERVED_COMMANDS.get(type)
    if decode is None and reserved is not None and reserved.is_accepted_by(aggregate):
        decode = reserved.decode
    if decode is None:
        known_types = ", ".join(aggregate.commands)
        raise CheckFailed(
            Reason.UNKNOWN_TYPE, f"{type} is not a command of the aggregate, which has {known_types}"
        )
    return decode


def read_data(
    aggregate: Aggregate,
    decode: Callable[[bytes], Command],
    envelope: CommandEnvelope,
    payloads: Payloads,
    poison_reason: str | None,
    decrypt: Callable[[bytes], bytes] | None = None,
) -> Command:
    """Check 7: return the command as an instance of its class.

    `poison_reason` is the reason why the aggregate's code is not called. `decrypt` decrypts the personal members, if
    the aggregate has any.
    """
    if poison_reason is not None:
        raise CheckFailed(Reason.HANDLER_ERROR, poison_reason)
    data = bytes(envelope.data)
    if (reference := envelope.reference()) is not None:
        payload_or_problem = payloads.get(reference, _NOT_FETCHED)
        if isinstance(payload_or_problem, str):
            raise CheckFailed(Reason.PAYLOAD_UNAVAILABLE, f"payload {reference.sha256}: {payload_or_problem}")
        data = payload_or_problem
    try:
        if not data.isascii():
            data.decode()
        if aggregate.may_nest:
            check_nesting(data)
        return decode(data if decrypt is None else decrypt(data))
    except (CheckFailed, *PROCESS_ERRORS):
        raise
    except RecursionError:
        raise CheckFailed(Reason.INVALID_PAYLOAD, "nested too deeply") from None
    except ValueError as error:  # msgspec raises subclasses of `ValueError`
        raise CheckFailed(
            Reason.INVALID_PAYLOAD, _mismatch_message(aggregate, envelope.type, data, error)
        ) from None
    except BaseException as error:  # from the command's own `__post_init__`
        if is_interrupt(error):
            raise
        raise CheckFailed(Reason.HANDLER_ERROR, aggregate.describe_error(error)) from aggregate.redact_error(
            error
        )


def _mismatch_message(aggregate: Aggregate, type: str, data: bytes, error: ValueError) -> str:
    """Return why the data do not match their class: the decoder's message, or a substitute without personal values."""
    cls = aggregate.commands.get(type)
    return str(error) if cls is None else aggregate.personal.redact_mismatch(str(error), cls, data)


def read_expected(text: str | None) -> VersionCondition | None:
    """Check 8: return the parsed expected version, None if the command has none."""
    try:
        return None if text is None else parse_expected(text)
    except ValueError as error:
        raise CheckFailed(Reason.INVALID_EXPECTED_VERSION, str(error)) from None


def check_expiry(expires: datetime | None, timestamp: int, now: Callable[[], int]) -> None:
    """Check 9: compare `expires` with the later of the record's timestamp (ms) and the owner's clock."""
    if expires is None:
        return
    decision_time = max(timestamp, now())
    if decision_time > expires.timestamp() * 1000:
        raise CheckFailed(
            Reason.EXPIRED,
            f"expired at {expires.isoformat().replace('+00:00', 'Z')}",
            decidedat=rfc3339(decision_time),
        )


def check_version(condition: VersionCondition | None, version: int) -> None:
    """Check 10: the aggregate's version matches the expected version."""
    if condition is not None and (mismatch := condition.mismatch(version)) is not None:
        raise CheckFailed(*mismatch)
