"""Hides the values of personal fields in messages, for requests without the right to see them."""

from collections.abc import Callable, Mapping
from typing import Any

from cqrs_cli.client.codecs import decrypting_codec, redacting_codec
from cqrs_cli.client.queries.messages import LinkedMessage
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.reserved import RESERVED_COMMANDS

_RESERVED_TYPES = {ERASED, *RESERVED_COMMANDS}


def hidden_data(aggregate: Aggregate, wire_type: str, data: bytes) -> bytes:
    """Return the data of a command or event with null in personal fields. Return null if the code does not know the
    type, because any field may then be personal.
    """
    if not aggregate.has_personal_fields or wire_type in _RESERVED_TYPES:
        return data
    message_class = aggregate.commands.get(wire_type) or aggregate.events.get(wire_type)
    try:
        return b"null" if message_class is None else aggregate.personal.nullify_data(message_class, data)
    except (ValueError, RecursionError):  # not an object: such as the SHA-256 of a payload
        return b"null"


def redacted_member(aggregate: Aggregate, wire_type: str | None, sees_personal: bool) -> dict[str, list[str]]:
    """Return `{"redacted": [NAME, …]}` with the hidden fields of a command or event; `{}` if no field is hidden."""
    name = wire_type or ""
    message_class = aggregate.commands.get(name) or aggregate.events.get(name)
    if sees_personal or message_class is None:
        return {}
    names = [field.wire_name for field in aggregate.personal.fields_of(message_class)]
    return {"redacted": names} if names else {}


def name_redacted(
    aggregates: Mapping[str, Aggregate], command: dict[str, Any], sees_personal: bool
) -> dict[str, Any]:
    """Add the names of hidden fields to the document of a command, its events, and the commands that it caused."""
    for message in (command, *command["events"]):
        message |= redacted_member(aggregates[command["aggregate"]], message["type"], sees_personal)
        for caused in message["commands"]:
            name_redacted(aggregates, caused, sees_personal)
    return command


def message_view(
    aggregates: Mapping[str, Aggregate], sees_personal: bool
) -> Callable[[LinkedMessage], LinkedMessage]:
    """Return a function that hides the personal values of a message. With `sees_personal` it changes nothing."""

    def view(message: LinkedMessage) -> LinkedMessage:
        if sees_personal or message.kind in ("outcomes", "drops"):
            return message
        aggregate = aggregates[message.aggregate]
        return message._replace(data=hidden_data(aggregate, message.type, message.data))

    return view


def event_codec(project: ConsoleProject, aggregate: str, sees_personal: bool) -> RecordCodec:
    """Return the codec of an aggregate's events. It decrypts personal fields if `sees_personal`, else it redacts them.
    The caller closes it.
    """
    loaded = project.aggregates[aggregate]
    if sees_personal:
        return decrypting_codec(project.connection, project.topics(aggregate), loaded)
    return redacting_codec(project.connection, loaded)
