"""Creates commands as CloudEvents, and checks their attributes."""

import re
from typing import Any, NamedTuple

from msgspec import Raw

from cqrs_cli.client.uuid7 import uuid7
from cqrs_cli.core.deferral.entry import MAX_TIMESTAMP
from cqrs_cli.core.messages.attributes import MAX_TRACESTATE, PropagatedAttributes
from cqrs_cli.core.messages.command import MAX_ATTRIBUTE
from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.reaction_id import reserved_id_error
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import UsageError


class ReadyCommand(NamedTuple):
    """A command ready to send. `value`: the whole command as a CloudEvent in JSON, including the other members."""

    id: str
    aggregate: str
    subject: str
    type: str
    value: bytes


class Attribution(NamedTuple):
    """Who sent a command, and for which action of an operator. Both are extension attributes, which owners ignore.

    `actor`: the name of a token of the gateway, or of the user of the command line; empty if unknown. `action`:
    `retry`, `release`, `cancel` or `drop`; empty for an ordinary command.
    """

    actor: str = ""
    action: str = ""

    def members(self) -> dict[str, str]:
        """Return the attributes that are not empty."""
        return {name: text for name, text in self._asdict().items() if text}


NO_ATTRIBUTION = Attribution()


class Attributes(PropagatedAttributes, frozen=True, kw_only=True, gc=False):
    """The attributes that a sender may set, besides type, subject and data. Times are in ms since 1970.

    Publications also create their public events with this class. Only they set `time`.
    """

    id: str | None = None  # None: a new UUIDv7
    expected: str | None = None
    correlation: str | None = None
    causation: str | None = None
    expiry: int | None = None
    not_before: int | None = None
    time: int | None = None
    attribution: Attribution = NO_ATTRIBUTION


NO_ATTRIBUTES = Attributes()


class ArgumentNames(NamedTuple):
    """The names that error messages give to the arguments of `create_command`.

    `option_prefix`: the prefix before the names of all other attributes, such as `--` on the command line.
    """

    subject: str
    id: str
    expected: str
    correlation: str
    option_prefix: str = ""


ON_COMMAND_LINE = ArgumentNames("ID", "--id", "--expect", "--correlation", "--")
IN_PYTHON = ArgumentNames("aggregate_id", "id", "expect", "correlation_id")

#: Matches a traceparent of W3C Trace Context in the form of version 00, but with any version except ff. Neither its
#: trace id nor its parent id is all zeros.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII
)

#: Matches a member of a tracestate: a vendor's key, optionally with a tenant prefix, and a value without `,` and `=`.
_MEMBER = re.compile(
    r"[ \t]*((?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})"
    r"=[ -+\--<>-~]{0,255}[!-+\--<>-~][ \t]*)?",
    re.ASCII,
)

#: The largest number of members of a tracestate (W3C Trace Context).
_MAX_MEMBERS = 32


class _Envelope(PropagatedAttributes, frozen=True, gc=False, omit_defaults=True):
    specversion: str
    id: str
    source: str
    type: str
    subject: str
    expectedversion: str | None = None
    correlationid: str | None = None
    causationid: str | None = None
    expirytime: str | None = None
    notbefore: str | None = None
    time: str | None = None
    actor: str | None = None
    action: str | None = None


class _EnvelopeWithData(_Envelope, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    data: Raw  # declared in a subclass, so that the JSON has it after the propagated attributes


def create_command(
    aggregate: str,
    subject: str,
    wire_type: str,
    data: bytes,
    source: str,
    attributes: Attributes = NO_ATTRIBUTES,
    names: ArgumentNames = ON_COMMAND_LINE,
) -> ReadyCommand:
    """Return a command with the JSON `data`, which the caller has checked against the command's class.

    Raises `UsageError` for an invalid attribute.
    """
    if attributes.expected is not None:
        try:
            parse_expected(attributes.expected)
        except ValueError as error:
            raise UsageError(f"{names.expected}: {error}", "leave it out for any version") from None
    command_id = uuid7() if attributes.id is None else attributes.id
    _check_attribute(names.subject, subject)
    _check_attribute(names.id, command_id)
    if (error_text := reserved_id_error(command_id, source)) is not None:
        raise UsageError(f"{names.id}: {error_text}", "choose another id")
    if attributes.correlation is not None:
        _check_attribute(names.correlation, attributes.correlation)
    _check_trace(attributes, names.option_prefix)
    propagated_attributes = attributes.propagated()
    for name, text in propagated_attributes.items():
        _check_attribute(names.option_prefix + name, text)
    envelope = _EnvelopeWithData(
        "1.0",
        command_id,
        source,
        wire_type,
        subject,
        attributes.expected or None,
        attributes.correlation,
        attributes.causation or None,
        None if attributes.expiry is None else rfc3339(_limit_to_calendar(attributes.expiry)),
        None if attributes.not_before is None else rfc3339(_limit_to_calendar(attributes.not_before)),
        None if attributes.time is None else rfc3339(attributes.time),
        **attributes.attribution.members(),
        **propagated_attributes,
        data=Raw(data),
    )
    return ReadyCommand(command_id, aggregate, subject, wire_type, encode_json(envelope))


def _limit_to_calendar(milliseconds: int) -> int:
    """Return the time in ms, limited to the years 1970 to 9999."""
    return max(0, min(milliseconds, MAX_TIMESTAMP))


def valid_propagated_attributes(event: PropagatedAttributes) -> dict[str, Any]:
    """Return the attributes that an event propagates to the commands that it causes, without invalid trace attributes:
    `create_command` would reject these.
    """
    attributes = event.propagated()
    for name in ("tracestate", "traceparent"):
        try:
            _check_trace(PropagatedAttributes(**attributes), "")
            break
        except UsageError:
            attributes.pop(name, None)
    return attributes


def _check_trace(attributes: PropagatedAttributes, prefix: str) -> None:
    traceparent, tracestate = attributes.traceparent, attributes.tracestate
    if traceparent is not None and _TRACEPARENT.fullmatch(traceparent) is None:
        raise UsageError(
            f"{prefix}traceparent: {traceparent[:60]!r} is not a W3C traceparent",
            "write it like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        )
    if tracestate is None:
        return
    if traceparent is None:
        raise UsageError(f"{prefix}tracestate needs {prefix}traceparent", "set both, or neither")
    members = tracestate.split(",")
    if not tracestate or len(members) > _MAX_MEMBERS or not all(map(_MEMBER.fullmatch, members)):
        raise UsageError(
            f"{prefix}tracestate: {tracestate[:60]!r} is not a W3C tracestate",
            "write it like vendor=value,other=1",
        )
    if len(tracestate) > MAX_TRACESTATE:
        raise UsageError(
            f"{prefix}tracestate has {len(tracestate)} characters", f"give {MAX_TRACESTATE} at most"
        )


def _check_attribute(name: str, text: str) -> None:
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{name} is not UTF-8", "set the terminal to UTF-8") from None
    if not 0 < length <= MAX_ATTRIBUTE:
        raise UsageError(f"{name} has {length} bytes", f"give 1 to {MAX_ATTRIBUTE}")
