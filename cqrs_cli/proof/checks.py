"""Comparing a command with what its outcome tells of it."""

from collections.abc import Iterator
from datetime import datetime

from cqrs_cli.core.messages.command import MAX_ATTRIBUTE, CommandEnvelope, UndecidableError, read_command
from cqrs_cli.core.messages.fingerprint import fingerprint
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import parse_timestamp, rfc3339
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import OutcomeTrace, key_of
from cqrs_cli.proof.verdict import BLIND, VERSION_REASONS

#: A command that has expired is rejected for that, and not for one of these.
AFTER_EXPIRY = VERSION_REASONS | {"BUSINESS_RULE"}


def given_up(told: OutcomeTrace) -> bool:
    """Whether an operator did (`run --fail`): the command was not read, and its bytes are not kept."""
    return told.reason == "TOO_LARGE" and told.subject is None


def faults(scope: Scope, record: Record, told: OutcomeTrace) -> Iterator[str]:
    """Everything in which an outcome contradicts its command."""
    if told.timestamp != record.timestamp:
        yield "does not have the timestamp of its command"
    key = key_of(record)
    if told.key != key and not (given_up(told) and told.key is None and len(key or b"") > MAX_ATTRIBUTE):
        yield f"has the key {told.key!r}, its command {record.key!r}"
    if given_up(told):
        return
    try:
        if not record.key:
            raise UndecidableError("KEY_MISSING", "")
        envelope = read_command(record)
    except UndecidableError as error:
        if told.reason != error.reason:
            yield f"is {told.reason or told.status}, its command {error.reason}"
        return
    yield from _readable(scope, record, record.key, envelope, told)


def _readable(
    scope: Scope, record: Record, key: bytes, envelope: CommandEnvelope, told: OutcomeTrace
) -> Iterator[str]:
    """For a command whose envelope can be read."""
    expected = envelope.expected_text()
    unknown = told.status == "failed" and told.type == "cqrs.failed"
    if told.type != f"{envelope.type}.{told.status}" and not unknown:
        yield f"has the type {told.type!r}, its command {envelope.type!r}"
    if told.fingerprint != fingerprint(envelope.type, envelope.data, expected):
        yield "does not have the fingerprint of its command"
    if told.reason not in BLIND and told.expected != expected:
        yield f"says that version {told.expected} was expected, its command {expected}"
    if told.reason == "KEY_MISMATCH":
        if key == envelope.subject.encode():
            yield "is KEY_MISMATCH, and the key of its command is the subject"
        return
    correlation = envelope.correlationid or envelope.id
    if (told.subject, told.cause, told.correlation) != (envelope.subject, envelope.id, correlation):
        yield (
            f"is of {told.subject!r}, {told.cause!r}, {told.correlation!r} (subject, causationid, correlationid), "
            f"its command {envelope.subject!r}, {envelope.id!r}, {correlation!r}"
        )
    if key != envelope.subject.encode():
        yield f"is {told.reason or told.status}, though the key of its command is not the subject"
    there = scope.home(key)
    if there is not None and (told.reason == "WRONG_PARTITION") != (there != scope.partition):
        yield f"is {told.reason or told.status}, and the partition of {envelope.subject!r} is {there}"
    yield from _expiry(record, envelope.expirytime, told)


def _expiry(record: Record, expires: datetime | None, told: OutcomeTrace) -> Iterator[str]:
    """Expired is what an owner came to after its time, by the later of the record's timestamp and its own clock."""
    if told.reason != "EXPIRED":
        decided = told.status in ("accepted", "unchanged") or told.reason in AFTER_EXPIRY
        if decided and expires is not None and record.timestamp > expires.timestamp() * 1000:
            yield f"is {told.reason or told.status}, and its command had expired at {expires.isoformat()}"
        return
    if expires is None:
        yield "is EXPIRED, and its command has no expirytime"
        return
    try:
        at = _moment(record, told.decidedat or "")
    except ValueError:
        yield f"is EXPIRED, decided at {told.decidedat!r}, which is no time"
        return
    if at < record.timestamp:
        yield f"is EXPIRED, decided at {told.decidedat}, before its command was there"
    elif not at > expires.timestamp() * 1000:
        yield f"is EXPIRED, decided at {told.decidedat}, and its command expires at {expires.isoformat()}"


def _moment(record: Record, decidedat: str) -> int:
    """When a command was decided, ms; raises `ValueError`. A timestamp that no calendar can say has a text that tells
    another: where an owner went by it, it is the timestamp.
    """
    return record.timestamp if decidedat == rfc3339(record.timestamp) else parse_timestamp(decidedat)
