"""References to payloads: data that are in a payload store because they are too large for a record (claim check).

A record with a reference has the attributes `dataref` (CloudEvents), `datasha256` and `datasize`, and no data.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from cqrs_cli.core.messages.json import encode_json, read_members

#: The maximal size of a payload, in bytes: readers hold a payload in memory.
MAX_PAYLOAD = 64 * 1024 * 1024

#: Every structured document with a reference contains these bytes. Readers search for them before they decode.
REFERENCE_MARKER = b'"datasha256"'

#: The attributes of a reference. CloudEvents defines only `dataref`.
ATTRIBUTES = ("dataref", "datasha256", "datasize")

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


class PayloadReference(NamedTuple):
    """A reference to a payload. The SHA-256 is its name in the store, and the size limits how much a reader reads."""

    sha256: str
    size: int

    def matches(self, data: bytes) -> bool:
        """True if `data` has this size and this SHA-256."""
        return len(data) == self.size and sha256(data).hexdigest() == self.sha256

    def attributes(self, folder: str) -> dict[str, str | int]:
        """Return the attributes of a record whose payload is in this folder of the store."""
        return {"dataref": f"{folder}/{self.sha256}", "datasha256": self.sha256, "datasize": self.size}


def payload_folder(topic: str) -> str:
    """Return the folder of an aggregate's payloads in the store; `topic` is any topic of the aggregate."""
    return topic.rpartition(".")[0]


def reference_to(data: bytes) -> PayloadReference:
    """Return the reference to these bytes."""
    return PayloadReference(sha256(data).hexdigest(), len(data))


def parse_reference(digest: str | None, size: int | str | None) -> PayloadReference:
    """Return the reference from the attributes `datasha256` and `datasize`; raises `ValueError` for invalid values."""
    if digest is None or _SHA256.fullmatch(digest) is None:
        raise ValueError("datasha256 must be a SHA-256 in 64 lower-case hexadecimal digits")
    if isinstance(size, str) and _NUMBER.fullmatch(size):
        size = int(size)
    if not isinstance(size, int) or not 0 <= size <= MAX_PAYLOAD:
        raise ValueError(f"datasize must be a number of bytes up to {MAX_PAYLOAD}")
    return PayloadReference(digest, size)


class _Attributes(Struct, gc=False):
    datasha256: str | None = None
    datasize: int | str | None = None


_decode_attributes = msgspec.json.Decoder(_Attributes).decode


def find_reference(document: bytes | None) -> PayloadReference | None:
    """Return the reference in a structured document, None without one; raises `ValueError` if it is malformed."""
    if document is None or REFERENCE_MARKER not in document:
        return None
    try:
        attributes = _decode_attributes(document)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return (
        None if attributes.datasha256 is None else parse_reference(attributes.datasha256, attributes.datasize)
    )


def data_of_document(document: bytes) -> bytes | None:
    """Return the data of a structured document; None if it has no data, or if it has a reference instead.

    Raises `ValueError` if the document is no JSON object.
    """
    members = read_members(document)
    data = members.get("data")
    return None if data is None or "datasha256" in members else bytes(data)


def with_reference(document: bytes, folder: str, reference: PayloadReference) -> bytes:
    """Return the document with a reference instead of its data."""
    attributes = reference.attributes(folder)
    reference_members = {name: Raw(encode_json(value)) for name, value in attributes.items()}
    return _replace_members(document, {**reference_members, "data": Raw(b"null")})


def with_data(document: bytes, data: bytes) -> bytes:
    """Return the document with data instead of its reference."""
    return _replace_members(document, {"data": Raw(data)})


def with_payload_data(document: bytes, payloads: Mapping[PayloadReference, bytes]) -> bytes:
    """Return the document with its payload instead of its reference.

    A document without a reference is returned unchanged; so is every document if `payloads` is empty.
    """
    reference = find_reference(document) if payloads else None
    return document if reference is None else with_data(document, payloads[reference])


def _replace_members(document: bytes, new_members: dict[str, Raw]) -> bytes:
    replaced = (*ATTRIBUTES, "data")
    members = {name: member for name, member in read_members(document).items() if name not in replaced}
    return msgspec.json.encode({**members, **new_members})
