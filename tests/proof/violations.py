"""The violations of a history, in the form that tests compare."""

import json
from typing import Any

import msgspec

from cqrs_cli.core.messages.record import Record
from tests.proof.history import History, with_value


def violation_positions(history: History, **options: Any) -> list[tuple[str, int]]:
    return [(kind, offset) for kind, offset, _ in history.violations(**options)]


def only_violation(history: History, **options: Any) -> str:
    """Return the only violation as text."""
    ((kind, offset, problem),) = history.violations(**options)
    return f"{kind} {offset} {problem}"


def violation_texts(history: History, **options: Any) -> list[str]:
    return [f"{kind} {offset} {problem}" for kind, offset, problem in history.violations(**options)]


def with_members(record: Record, **members: Any) -> Record:
    """Return the record with another key, timestamp or headers."""
    return msgspec.structs.replace(record, **members)


def command_of_outcome(record: Record) -> int:
    """Return the command offset of an outcome."""
    return int(json.loads(record.value or b"")["data"]["offset"])


def command_of_event(record: Record) -> int:
    """Return the command offset of an event."""
    return int(json.loads(record.value or b"")["id"].split("/")[1])


def command_of_dead_letter(record: Record) -> int:
    """Return the command offset of a dead letter."""
    return int(dict(record.headers or [])["cqrs.offset"] or b"")


def without_members(record: Record, *members: str) -> Record:
    """Return the record without these members of its data."""
    document = json.loads(record.value or b"")
    for name in members:
        del document["data"][name]
    return with_value(record, json.dumps(document).encode())
