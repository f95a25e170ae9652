"""Commands as CloudEvents: the envelope around their data."""

import re
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cqrs_cli.client.uuid7 import uuid7
from cqrs_cli.core.messages.command import MAX_ATTRIBUTE
from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import UsageError


class Composed(NamedTuple):
    """A command ready to be sent: `value` is its CloudEvent."""

    id: str
    aggregate: str
    subject: str
    type: str
    value: bytes


class Spelling(NamedTuple):
    """The names that errors give to what a caller chooses."""

    subject: str
    id: str
    expected: str
    correlation: str
    traceparent: str


ON_COMMAND_LINE = Spelling("ID", "--id", "--expect", "--correlation", "--traceparent")
IN_PYTHON = Spelling("aggregate_id", "id", "expect", "correlation_id", "traceparent")

#: W3C Trace Context, version 00: neither trace nor parent is all zeros, nor is the version ff.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII
)


class _Written(Struct):
    specversion: str
    id: str
    source: str
    type: str
    subject: str
    expectedversion: str | UnsetType
    correlationid: str | UnsetType
    causationid: str | UnsetType
    expirytime: str | UnsetType
    traceparent: str | UnsetType
    data: Raw


def write_command(
    aggregate: str,
    subject: str,
    wire_type: str,
    data: bytes,
    *,
    source: str,
    id: str | None = None,
    expected: str | None = None,
    correlation: str | None = None,
    causation: str | None = None,
    expiry: int | None = None,
    traceparent: str | None = None,
    spelling: Spelling = ON_COMMAND_LINE,
) -> Composed:
    """A command around `data`, which its decoder takes; raises `UsageError` for an attribute that no owner takes."""
    if expected is not None:
        try:
            parse_expected(expected)
        except ValueError as error:
            raise UsageError(f"{spelling.expected}: {error}", "leave it out for any version") from None
    chosen = uuid7() if id is None else id
    _check_attribute(spelling.subject, subject)
    _check_attribute(spelling.id, chosen)
    _check_attribute(spelling.correlation, correlation or "-")
    if traceparent is not None and _TRACEPARENT.fullmatch(traceparent) is None:
        raise UsageError(
            f"{spelling.traceparent}: {traceparent[:60]!r} is not a W3C traceparent",
            "it is like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        )
    written = _Written(
        specversion="1.0",
        id=chosen,
        source=source,
        type=wire_type,
        subject=subject,
        expectedversion=expected or UNSET,
        correlationid=correlation or UNSET,
        causationid=causation or UNSET,
        expirytime=UNSET if expiry is None else rfc3339(expiry),
        traceparent=UNSET if traceparent is None else traceparent,
        data=Raw(data),
    )
    return Composed(chosen, aggregate, subject, wire_type, msgspec.json.encode(written))


def _check_attribute(name: str, text: str) -> None:
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{name} is not UTF-8", "set the terminal to UTF-8") from None
    if not 0 < length <= MAX_ATTRIBUTE:
        raise UsageError(f"{name} has {length} bytes", f"give 1 to {MAX_ATTRIBUTE}")
