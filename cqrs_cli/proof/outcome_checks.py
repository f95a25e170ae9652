"""Compares a command with the index entry of its outcome, for `verify`."""

from collections.abc import Iterator
from datetime import datetime

from cqrs_cli.core.checks import without_unsafe_parts
from cqrs_cli.core.deferral.document import forwarded_document
from cqrs_cli.core.deferral.entry import due_of
from cqrs_cli.core.messages.attributes import PROPAGATED
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record, is_text
from cqrs_cli.core.messages.timestamps import milliseconds_of, parse_timestamp, rfc3339
from cqrs_cli.proof.index_entries import OutcomeEntry, checksums_differ, key_of, text_checksum
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.verdict import REASONS_BEFORE_STATE_LOOKUP, VERSION_REASONS

#: Reasons of the checks after the expiry check. An expired command never has one of these reasons.
REASONS_AFTER_EXPIRY = VERSION_REASONS | {"BUSINESS_RULE"}

#: The names of the propagated attributes, for messages.
PROPAGATED_NAMES = " and ".join(PROPAGATED)

_NOT_PROPAGATED = (None,) * len(PROPAGATED)


def was_given_up(outcome: OutcomeEntry) -> bool:
    """True if the command failed without being read: by an operator (`run --fail`), or because its dead letter would be
    too large. The dead letter then lacks the command's bytes.
    """
    return outcome.reason == "TOO_LARGE" and outcome.fingerprint is None


def check_outcome(scope: Scope, record: Record, outcome: OutcomeEntry) -> Iterator[str]:
    """Yield each contradiction between an outcome and its command."""
    if outcome.timestamp != record.timestamp:
        yield "does not have the timestamp of its command"
    if outcome.key != key_of(without_unsafe_parts(record) if was_given_up(outcome) else record):
        yield f"has the key {outcome.key!r}, its command {record.key!r}"
    if was_given_up(outcome):
        return
    try:
        if not record.key:
            raise CheckFailed(Reason.KEY_MISSING, "")
        envelope = read_command(record)
    except CheckFailed as failure:
        if outcome.reason != failure.reason.name:
            yield f"is {outcome.result}, but its command is {failure.reason.name}"
        return
    yield from _check_readable(scope, record, record.key, envelope, outcome)


def _check_readable(
    scope: Scope, record: Record, key: bytes, envelope: CommandEnvelope, outcome: OutcomeEntry
) -> Iterator[str]:
    """Yield the contradictions of the outcome of a command with a readable envelope."""
    expected = envelope.expected_text()
    is_type_unknown = outcome.status == "failed" and outcome.type == "cqrs.failed"
    if outcome.type != f"{envelope.type}.{outcome.status}" and not is_type_unknown:
        yield f"has the type {outcome.type!r}, its command {envelope.type!r}"
    has_fingerprint = outcome.deferredfrom is not None or scope.fits_command(
        outcome.fingerprint, envelope.type, envelope.data, expected
    )
    if not has_fingerprint:
        yield "does not have the fingerprint of its command"
    if outcome.reason not in REASONS_BEFORE_STATE_LOOKUP and outcome.expected != expected:
        yield f"says that version {outcome.expected} was expected, its command {expected}"
    actual = (outcome.subject, outcome.cause, outcome.correlation)
    has_ids = outcome.reason != "KEY_MISMATCH" or is_text(key)
    expected_ids = (
        (envelope.subject, envelope.id, envelope.correlationid or envelope.id) if has_ids else (None,) * 3
    )
    if actual != expected_ids:
        yield f"has subject, causationid and correlationid {actual}, its command {expected_ids}"
    propagated_texts = envelope.propagated_texts() if has_ids else _NOT_PROPAGATED
    if checksums_differ(outcome.propagated_checksum, text_checksum(*propagated_texts)):
        yield f"does not have the {PROPAGATED_NAMES} of its command"
    if outcome.reason == "KEY_MISMATCH":
        if key == envelope.subject.encode():
            yield "is KEY_MISMATCH, but the key of its command is the subject"
        return
    if key != envelope.subject.encode():
        yield f"is {outcome.result}, though the key of its command is not the subject"
    yield from _check_partition(scope, record, key, envelope, outcome)
    yield from _check_expiry(record, envelope.expirytime, outcome)
    if outcome.deferredfrom is None:
        yield from _check_not_before(record, envelope.notbefore, outcome)


def _check_partition(
    scope: Scope, record: Record, key: bytes, envelope: CommandEnvelope, outcome: OutcomeEntry
) -> Iterator[str]:
    """Check that the command was decided in the partition to which its key belonged at the command's offset. A command
    that arrived after its key had moved must have been forwarded to the child partition.
    """
    key_partition, key_history = scope.partition_at_command(key, record.offset), scope.key_history
    if key_partition is None:
        return
    target = (
        None
        if key_history is None or key_partition == scope.partition
        else key_history.forward_target(key, record.offset)
    )
    if target is None:
        if (outcome.reason == "WRONG_PARTITION") != (
            key_partition != scope.partition
        ) or outcome.movedto is not None:
            yield f"is {outcome.result}, but the partition of {envelope.subject!r} is {key_partition}"
    elif outcome.movedto != target and not _cannot_be_forwarded(scope, record, envelope, outcome):
        yield f"is {outcome.result}, but {envelope.subject!r} has moved to partition {target}"


def _cannot_be_forwarded(
    scope: Scope, record: Record, envelope: CommandEnvelope, outcome: OutcomeEntry
) -> bool:
    """True if the command cannot be forwarded, because it cannot be written as a valid document."""
    if outcome.reason != "INVALID_PAYLOAD":
        return False
    try:
        forwarded_document(record, envelope, f"{scope.partition}/{record.offset}")
    except CheckFailed:
        return True
    return False


def _check_not_before(record: Record, notbefore: datetime | None, outcome: OutcomeEntry) -> Iterator[str]:
    """Check that a command was not decided before its `notbefore`, and that it is NOT_YET only before its `notbefore`.
    The record's timestamp counts as the time of the decision.
    """
    is_too_early = notbefore is not None and milliseconds_of(notbefore) > record.timestamp
    was_decided = outcome.status in ("accepted", "unchanged") or outcome.reason in REASONS_AFTER_EXPIRY | {
        "EXPIRED",
        "LATER",
    }
    if is_too_early and was_decided:
        yield f"is {outcome.result}, but its command's notbefore is later"
    if outcome.reason == "NOT_YET" and not is_too_early:
        yield "is NOT_YET, but its command has no later notbefore"
    elif (
        outcome.reason == "NOT_YET" and notbefore is not None and outcome.due not in (None, due_of(notbefore))
    ):
        yield f"is deferred until another time than its command's notbefore, {rfc3339(due_of(notbefore))}"


def _check_expiry(record: Record, expires: datetime | None, outcome: OutcomeEntry) -> Iterator[str]:
    """Check the outcome against the expiry time.

    A command has expired if the later of the record's timestamp and the owner's clock is past its expiry time.
    """
    if outcome.reason != "EXPIRED":
        was_decided = outcome.status in ("accepted", "unchanged") or outcome.reason in REASONS_AFTER_EXPIRY
        if was_decided and expires is not None and record.timestamp > expires.timestamp() * 1000:
            yield f"is {outcome.result}, but its command had expired at {expires.isoformat()}"
        return
    if expires is None:
        yield "is EXPIRED, but its command has no expirytime"
        return
    try:
        decided_at = _decided_at(record, outcome.decidedat or "")
    except ValueError:
        yield f"is EXPIRED, decided at {outcome.decidedat!r}, which is not a time"
        return
    if decided_at < record.timestamp:
        yield f"is EXPIRED, decided at {outcome.decidedat}, before its command was written"
    elif not decided_at > expires.timestamp() * 1000:
        yield f"is EXPIRED, decided at {outcome.decidedat}, but its command expires at {expires.isoformat()}"


def _decided_at(record: Record, decidedat: str) -> int:
    """Return the time at which a command was decided, ms; raise `ValueError` for an invalid text.

    The text is first compared with the text of the record's timestamp: a timestamp outside the calendar is written as a
    time in 1970, so parsing its text would return another time.
    """
    return record.timestamp if decidedat == rfc3339(record.timestamp) else parse_timestamp(decidedat)
