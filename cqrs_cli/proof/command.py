"""Comparing a command with what its outcome tells of it."""

from collections.abc import Iterator

from cqrs_cli.core.envelope import CommandEnvelope, UndecidableError, read_command
from cqrs_cli.core.fingerprint import fingerprint
from cqrs_cli.core.record import Record
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import Told, key_of
from cqrs_cli.proof.verdict import BLIND


def given_up(told: Told) -> bool:
    """Whether an operator did (`run --fail`): the command was not read, and its bytes are not kept."""
    return told.reason == "TOO_LARGE" and told.subject is None


def faults(scope: Scope, record: Record, told: Told) -> Iterator[str]:
    """Everything in which an outcome contradicts its command."""
    if told.timestamp != record.timestamp:
        yield "does not have the timestamp of its command"
    if told.key != key_of(record):
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
    scope: Scope, record: Record, key: bytes, envelope: CommandEnvelope, told: Told
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
    expires = envelope.expirytime
    decided = told.status in ("accepted", "unchanged")
    if decided and expires is not None and record.timestamp > expires.timestamp() * 1000:
        yield f"is {told.status}, and its command had expired at {expires.isoformat()}"
