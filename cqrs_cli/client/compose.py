"""Composes the commands of `cqrs send`, from fields on a command line or from lines of JSON."""

import difflib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cqrs_cli.client.envelope import NO_ATTRIBUTES, Attributes, ReadyCommand, create_command
from cqrs_cli.client.field_values import command_data
from cqrs_cli.client.uuid7 import uuid7
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.checks import decoder_of, read_data, read_expected
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.messages.reaction_id import reserved_id_error
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.errors import UsageError
from cqrs_cli.formatting import did_you_mean

#: The default `source` of commands.
SOURCE = "/cqrs/send"

#: The headers of a record whose value is a whole CloudEvent.
_STRUCTURED_HEADERS: Headers = [*HEADERS]


def compose(
    aggregate: Aggregate,
    subject: str,
    command: str,
    fields: Sequence[str],
    attributes: Attributes = NO_ATTRIBUTES,
) -> ReadyCommand:
    """Compose a command to the aggregate with the id `subject`. `command`: its type, with or without the name of the
    aggregate. `fields`: each is `name=text`, `name:=json` or `name[key]=text`.

    Raises `UsageError` for an unknown command or field, or a value that is not of the field's type.
    """
    wire_type = _wire_type(aggregate, command)
    data = command_data(aggregate, wire_type, fields)
    return create_command(aggregate.name, subject, wire_type, data, SOURCE, attributes)


def _wire_type(aggregate: Aggregate, command: str) -> str:
    """Return the wire type `bank_account.Deposit` for both `Deposit` and `bank_account.Deposit`."""
    prefix = f"{aggregate.name}."
    wire_type = command if command.startswith(prefix) else prefix + command
    if wire_type not in aggregate.commands:
        names = sorted(name.removeprefix(prefix) for name in aggregate.commands)
        hint = f"{did_you_mean(command.removeprefix(prefix), names)} known: {', '.join(names)}".lstrip()
        raise UsageError(f"{aggregate.name} has no command {command!r}", hint)
    return wire_type


class _Line(Struct, gc=False):
    """The attributes of a command in a line of JSON that sending needs."""

    type: str
    subject: str
    id: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    specversion: str | UnsetType = UNSET


#: The attributes that an owner reads; any other attribute is an extension.
_ATTRIBUTES = [field.name for field in msgspec.structs.fields(CommandEnvelope)]

#: The first five letters of an extension → the attribute that the extension probably misspells. Without this attribute
#: the owner would decide otherwise.
_MISSPELT_PREFIXES = {"expec": "expectedversion", "expir": "expirytime", "notbe": "notbefore"}

#: A line whose attributes are all known. Its decoder raises an error for a line with any other attribute.
_StrictLine = msgspec.defstruct(
    "_StrictLine",
    [(name, Raw, Raw()) for name in _ATTRIBUTES if name not in _Line.__struct_fields__],
    bases=(_Line,),
    forbid_unknown_fields=True,
)
_read_strict_line = msgspec.json.Decoder(cast("type[_Line]", _StrictLine)).decode
_read_line = msgspec.json.Decoder(_Line).decode


def require_decodable(aggregate: Aggregate, command: ReadyCommand) -> None:
    """Raise `CheckFailed` if the owner would fail the command because of its attributes, type or data.

    The data of a payload reference are not checked, because they are in the payload store.
    """
    envelope = read_command(Record(0, 0, None, command.value, _STRUCTURED_HEADERS))
    decode = decoder_of(aggregate, envelope.type)
    if envelope.reference() is None:
        read_data(aggregate, decode, envelope, {}, None)
    read_expected(envelope.expected_text())


def complete_line(line: bytes) -> ReadyCommand:
    """Return a line of JSON as a command. Its bytes stay as they are, apart from a missing id, source or specversion,
    which is added at the front. Only the attributes that sending needs are decoded.

    Raises `ValueError` for a line that is not a JSON object with a `type` like `bank_account.Deposit` and a `subject`.
    Also raises it for a misspelt attribute, because an owner would silently ignore it as an extension.
    """
    try:
        attributes = _read_attributes(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    aggregate, dot, command = attributes.type.partition(".")
    if not (dot and command and aggregate):
        raise ValueError(f"type {attributes.type[:60]!r} is not like bank_account.Deposit")
    if not attributes.subject:
        raise ValueError("subject is empty")
    command_id, source = (None if value is UNSET else value for value in (attributes.id, attributes.source))
    if (error_text := reserved_id_error(command_id or "", source or SOURCE)) is not None:
        raise ValueError(error_text)
    missing_members = b""
    if attributes.specversion is UNSET:
        missing_members += b'"specversion":"1.0",'
    if attributes.id is UNSET:
        attributes.id = uuid7()
        missing_members += b'"id":"%s",' % attributes.id.encode()
    if attributes.source is UNSET:
        missing_members += b'"source":"%s",' % SOURCE.encode()
    value = line.strip()
    return ReadyCommand(
        attributes.id,
        aggregate,
        attributes.subject,
        attributes.type,
        b"{" + missing_members + value[1:] if missing_members else value,
    )


def _read_attributes(line: bytes) -> _Line:
    try:
        return _read_strict_line(line)
    except msgspec.ValidationError:
        attributes = _read_line(line)  # raises, unless an unknown attribute was the only error
    for name in read_members(line):
        if name not in _ATTRIBUTES and (intended := _intended_attribute(name)) is not None:
            raise ValueError(f"attribute {name[:60]} is not known; did you mean {intended}?")
    return attributes


@lru_cache(1000)
def _intended_attribute(name: str) -> str | None:
    """Return the known attribute that `name` probably misspells; None if `name` is an extension."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    matches = difflib.get_close_matches(letters, _ATTRIBUTES, 1, cutoff=0.87)
    return _MISSPELT_PREFIXES.get(letters[:5]) or (matches[0] if matches else None)
