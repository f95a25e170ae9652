"""The documents that resubmit or forward a command: structured JSON with the command's data verbatim."""

import msgspec
from msgspec import Raw, Struct

from cqrs_cli.core.messages.command import CommandEnvelope, binary_attributes, read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import encode_json, read_members
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record


class _Forwarded(Struct):
    forwardedfrom: str = ""


_decode_forwarded = msgspec.json.Decoder(_Forwarded).decode


def structured_document(record: Record, envelope: CommandEnvelope) -> bytes:
    """Return the command of a record as a structured CloudEvent without `deferredfrom`.

    Raises `CheckFailed` (INVALID_PAYLOAD) if the document could not be read again.
    """
    members = _members_of(record, envelope)
    members.pop("deferredfrom", None)
    return _encode_readable(record, members)


def forwarded_document(record: Record, envelope: CommandEnvelope, forwardedfrom: str) -> bytes:
    """Return the command of a record as a structured CloudEvent with `forwardedfrom`, the partition and
    offset of the record, such as `3/120`.

    All other attributes stay, also `deferredfrom`: only the owner of the child partition can check it. Raises
    `CheckFailed` as `structured_document` does.
    """
    return _encode_readable(
        record, {**_members_of(record, envelope), "forwardedfrom": Raw(encode_json(forwardedfrom))}
    )


def read_forwardedfrom(value: bytes | None) -> tuple[int, int] | None:
    """Return partition and offset of a command's `forwardedfrom`; None if it is missing or malformed."""
    try:
        forwardedfrom = _decode_forwarded(value or b"").forwardedfrom
        partition, _, offset = forwardedfrom.partition("/")
        return int(partition), int(offset)
    except (ValueError, RecursionError):
        return None


def _members_of(record: Record, envelope: CommandEnvelope) -> dict[str, Raw]:
    assert record.value is not None
    attributes = binary_attributes(record)
    if attributes is None:
        return read_members(record.value)
    texts = {name: text for name, text in attributes.items() if name != "datacontenttype"}
    members = {name: Raw(encode_json(text)) for name, text in texts.items()}
    members["data"] = Raw(bytes(envelope.data) if envelope.datasha256 is None else b"null")
    return members


def _encode_readable(record: Record, members: dict[str, Raw]) -> bytes:
    """Return the members as JSON; raises `CheckFailed` if `read_command` refuses the document."""
    document = encode_json(members)
    try:
        read_command(Record(record.offset, record.timestamp, record.key, document, [*HEADERS]))
    except CheckFailed as failure:
        raise CheckFailed(
            Reason.INVALID_PAYLOAD, f"its document could not be read again: {failure.message}"
        ) from None
    return document
