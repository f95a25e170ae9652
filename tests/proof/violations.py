"""The violations of a history, in the form that tests compare."""

import json
from typing import Any

import msgspec

from cqrs_cli.core.messages.record import Record
from tests.proof.history import History, with_value


def places(history: History, **how: Any) -> list[tuple[str, int]]:
    return [(kind, offset) for kind, offset, _ in history.violations(**how)]


def only(history: History, **how: Any) -> str:
    """Return the only violation as text."""
    ((kind, offset, what),) = history.violations(**how)
    return f"{kind} {offset} {what}"


def described(history: History, **how: Any) -> list[str]:
    return [f"{kind} {offset} {what}" for kind, offset, what in history.violations(**how)]


def remade(record: Record, **members: Any) -> Record:
    """Return the record with another key, timestamp or headers."""
    return msgspec.structs.replace(record, **members)


def outcome_of(record: Record) -> int:
    """Return the command offset of an outcome."""
    return int(json.loads(record.value or b"")["data"]["offset"])


def event_of(record: Record) -> int:
    """Return the command offset of an event."""
    return int(json.loads(record.value or b"")["id"].split("/")[1])


def letter_of(record: Record) -> int:
    """Return the command offset of a dead letter."""
    return int(dict(record.headers or [])["cqrs.offset"] or b"")


def without(record: Record, *members: str) -> Record:
    """Return the record without these members of its data."""
    document = json.loads(record.value or b"")
    for name in members:
        del document["data"][name]
    return with_value(record, json.dumps(document).encode())
