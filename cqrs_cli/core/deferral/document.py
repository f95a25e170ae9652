"""The document that says a command again: structured JSON, its data verbatim."""

import msgspec
from msgspec import Raw

from cqrs_cli.core.messages.command import CommandEnvelope, binary_attributes, read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.reasons import Reason, Refused
from cqrs_cli.core.messages.record import Record

_members = msgspec.json.Decoder(dict[str, Raw]).decode


def plain_document(record: Record, envelope: CommandEnvelope) -> bytes:
    """The command in a record as a structured CloudEvent without `deferredfrom`; raises `Refused` (INVALID_PAYLOAD)
    if it could not be read again.
    """
    assert record.value is not None
    attributes = binary_attributes(record)
    if attributes is None:
        members = _members(record.value)
    else:
        texts = {name: text for name, text in attributes.items() if name != "datacontenttype"}
        members = {name: Raw(encode_json(text)) for name, text in texts.items()}
        members["data"] = Raw(bytes(envelope.data) if envelope.datasha256 is None else b"null")
    members.pop("deferredfrom", None)
    written = encode_json(members)
    try:
        read_command(Record(record.offset, record.timestamp, record.key, written, [*HEADERS]))
    except Refused as refused:
        raise Refused(Reason.INVALID_PAYLOAD, f"it could not be said again: {refused.message}") from None
    return written
