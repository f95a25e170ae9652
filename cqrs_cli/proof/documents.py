"""The documents of deferred commands: as they came, as their entries hold them, and as owners say them again."""

from collections.abc import Callable
from hashlib import blake2b
from itertools import product
from typing import TypeAlias

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.deferral.document import plain_document
from cqrs_cli.core.deferral.requests import REQUESTS, Cancel, Release
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.messages.payload_reference import data_within, with_data
from cqrs_cli.core.messages.reasons import Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.marks import personal_fields
from cqrs_cli.core.personal.masking import mask_data
from cqrs_cli.proof.fingerprints import FitsCommand

#: Makes of a command's document the part of it that is compared.
MaskDocument: TypeAlias = Callable[[bytes], bytes]

# What a sender in binary mode may have put around its data: a document cannot keep it.
_BLANKS = ["".join(some).encode() for length in range(3) for some in product(" \t\r\n", repeat=length)]


def digest_of(document: bytes) -> bytes:
    """A digest short enough to be kept for each command that waits."""
    return blake2b(document, digest_size=8).digest()


def masking(aggregate: Aggregate | None) -> MaskDocument:
    """Documents of an aggregate with personal fields, without what differs between one that is sealed and one that is
    not: personal values, and the sum of a payload, which is sealed and stored anew. Of a type that the code does not
    know any member may be personal, and without the code (None) each type is one.
    """

    def masked(document: bytes) -> bytes:
        try:
            members = read_members(document)
            kind = msgspec.json.decode(members["type"], type=str)
            cls = None if aggregate is None else aggregate.commands.get(kind)
            if cls is not None and not personal_fields(cls):
                return document
            inside = None if cls is None else data_within(document)
            return with_data(document, b"null" if cls is None or inside is None else mask_data(cls, inside))
        except (ValueError, KeyError, RecursionError):  # of no document; msgspec's errors are
            return document

    return masked


def deferred_document(record: Record | None, masked: MaskDocument = bytes) -> bytes | None:
    """The digest of the document that deferring this command makes; None if it cannot be known any more."""
    try:
        return None if record is None else digest_of(masked(plain_document(record, read_command(record))))
    except Refused:
        return None


def resubmitted_document(record: Record, place: str, masked: MaskDocument = bytes) -> bytes | None:
    """The digest of the document that this record says again; None if no owner has written it."""
    end = b',"deferredfrom":"%s"}' % place.encode()
    value = record.value or b""
    if record.headers != HEADERS or not value.endswith(end):
        return None
    return digest_of(masked(value[: -len(end)] + b"}"))


def fits_document(envelope: CommandEnvelope, mark: int, fits: FitsCommand) -> bool:
    """True if this may be the document of a command with this fingerprint: it may have had blanks around its data."""
    kind, data, expected = envelope.type, bytes(envelope.data), envelope.expected_text()
    if fits(mark, kind, data, expected):
        return True
    around = product(_BLANKS, repeat=2)
    return any(fits(mark, kind, before + data + after, expected) for before, after in around)


def requested_id(envelope: CommandEnvelope) -> str | None:
    """The id of the command that a `cqrs.Cancel` or `cqrs.Release` is about; None if this is no such command."""
    try:
        request = REQUESTS[envelope.type](bytes(envelope.data))
    except (KeyError, ValueError):
        return None
    assert isinstance(request, (Cancel, Release))
    return request.id
