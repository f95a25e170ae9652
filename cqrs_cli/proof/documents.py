"""Digests of a deferred command's document: as received, as stored in the deferred topic, and as resubmitted.

`verify` compares these digests, because an owner must store and resubmit the command that it received.
"""

from collections.abc import Callable
from hashlib import blake2b
from itertools import product
from typing import TypeAlias

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.deferral.document import structured_document
from cqrs_cli.core.deferral.requests import DeferralRequest
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.messages.payload_reference import data_of_document, with_data
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.reserved import RESERVED_COMMANDS
from cqrs_cli.proof.fingerprints import FingerprintCheck

#: Reduces a command's document to the part that is compared; `bytes` leaves the document unchanged.
DocumentRedactor: TypeAlias = Callable[[bytes], bytes]

# All texts of up to two whitespace characters. In binary content mode, a sender may have put whitespace around its
# data, which is part of the fingerprint, but not of the stored document.
_WHITESPACE = [
    "".join(characters).encode() for length in range(3) for characters in product(" \t\r\n", repeat=length)
]


def digest_of(document: bytes) -> bytes:
    """Return a digest of 8 bytes, short enough to keep in memory for each deferred command."""
    return blake2b(document, digest_size=8).digest()


def document_redactor(aggregate: Aggregate | None) -> DocumentRedactor:
    """Return a function that redacts the parts of a command document that encryption changes.

    These parts are the personal values, and the SHA-256 of a payload, because the encrypted payload is a new payload.
    If the code does not know the command's type, or is missing (None), all data are redacted.
    """

    def redact(document: bytes) -> bytes:
        try:
            members = read_members(document)
            command_type = msgspec.json.decode(members["type"], type=str)
            if aggregate is None or (cls := aggregate.commands.get(command_type)) is None:
                return with_data(document, b"null")
            if not aggregate.personal.fields_of(cls):
                return document
            data = data_of_document(document)
            return with_data(document, b"null" if data is None else aggregate.personal.redact_data(cls, data))
        except (ValueError, KeyError, RecursionError):  # not a document; msgspec's errors are ValueErrors
            return document

    return redact


def deferred_document_digest(record: Record | None, redact: DocumentRedactor = bytes) -> bytes | None:
    """Return the digest of the document that an owner stores to defer this command; None for a deleted or invalid
    record.
    """
    try:
        return (
            None if record is None else digest_of(redact(structured_document(record, read_command(record))))
        )
    except CheckFailed:
        return None


def resubmitted_document_digest(
    record: Record, deferredfrom: str, redact: DocumentRedactor = bytes
) -> bytes | None:
    """Return the digest of the document that this record resubmits; None if the record is not an owner's."""
    end = b',"deferredfrom":"%s"}' % deferredfrom.encode()
    value = record.value or b""
    if record.headers != HEADERS or not value.endswith(end):
        return None
    return digest_of(redact(value[: -len(end)] + b"}"))


def fits_document(envelope: CommandEnvelope, fingerprint: int, fits: FingerprintCheck) -> bool:
    """True if the envelope has the fingerprint `fingerprint`, possibly with whitespace around its data."""
    command_type, data, expected = envelope.type, bytes(envelope.data), envelope.expected_text()
    if fits(fingerprint, command_type, data, expected):
        return True
    whitespace_pairs = product(_WHITESPACE, repeat=2)
    return any(
        fits(fingerprint, command_type, before + data + after, expected) for before, after in whitespace_pairs
    )


def requested_id(envelope: CommandEnvelope) -> str | None:
    """Return the command id in the data of a `cqrs.Cancel` or `cqrs.Release`; None for other commands."""
    try:
        request = RESERVED_COMMANDS[envelope.type].decode(bytes(envelope.data))
    except (KeyError, ValueError):
        return None
    return request.id if isinstance(request, DeferralRequest) else None
