"""Commands as CloudEvents: the envelope around their data."""

import re
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cqrs_cli.client.uuid7 import uuid7
from cqrs_cli.core.messages.command import MAX_ATTRIBUTE, MAX_TRACESTATE
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
    tracestate: str


ON_COMMAND_LINE = Spelling("ID", "--id", "--expect", "--correlation", "--traceparent", "--tracestate")
IN_PYTHON = Spelling("aggregate_id", "id", "expect", "correlation_id", "traceparent", "tracestate")

#: W3C Trace Context, version 00: neither trace nor parent is all zeros, nor is the version ff.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII
)

#: A member of a tracestate: a vendor's key, perhaps with a tenant before it, and a value without comma and equals sign.
_MEMBER = re.compile(
    r"[ \t]*((?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[ -+\--<>-~]{0,255}[!-+\--<>-~][ \t]*)?",
    re.ASCII,
)
_MOST_MEMBERS = 32


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
    notbefore: str | UnsetType
    traceparent: str | UnsetType
    tracestate: str | UnsetType
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
    not_before: int | None = None,
    traceparent: str | None = None,
    tracestate: str | None = None,
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
    _check_trace(traceparent, tracestate, spelling)
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
        notbefore=UNSET if not_before is None else rfc3339(not_before),
        traceparent=UNSET if traceparent is None else traceparent,
        tracestate=UNSET if tracestate is None else tracestate,
        data=Raw(data),
    )
    return Composed(chosen, aggregate, subject, wire_type, msgspec.json.encode(written))


def readable_trace(traceparent: str | None, tracestate: str | None) -> tuple[str | None, str | None]:
    """The trace of an event as its commands hand it on: without what no tracer reads, which would be refused."""
    for parent, state in ((traceparent, tracestate), (traceparent, None)):
        try:
            _check_trace(parent, state, IN_PYTHON)
        except UsageError:
            continue
        return parent, state
    return None, None


def _check_trace(parent: str | None, state: str | None, spelling: Spelling) -> None:
    if parent is not None and _TRACEPARENT.fullmatch(parent) is None:
        raise UsageError(
            f"{spelling.traceparent}: {parent[:60]!r} is not a W3C traceparent",
            "it is like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        )
    if state is None:
        return
    if parent is None:
        raise UsageError(
            f"{spelling.tracestate} means nothing without {spelling.traceparent}", "give both, or none"
        )
    members = state.split(",")
    if not state or len(members) > _MOST_MEMBERS or not all(map(_MEMBER.fullmatch, members)):
        raise UsageError(
            f"{spelling.tracestate}: {state[:60]!r} is not a W3C tracestate",
            "it is like vendor=value,other=1",
        )
    if len(state) > MAX_TRACESTATE:
        raise UsageError(
            f"{spelling.tracestate} has {len(state)} characters", f"give {MAX_TRACESTATE} at most"
        )


def _check_attribute(name: str, text: str) -> None:
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{name} is not UTF-8", "set the terminal to UTF-8") from None
    if not 0 < length <= MAX_ATTRIBUTE:
        raise UsageError(f"{name} has {length} bytes", f"give 1 to {MAX_ATTRIBUTE}")
