"""Finds the commands that a process manager has sent, for its verification."""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b

import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.payload_reference import (
    data_of_document,
    payload_folder,
    reference_to,
    with_reference,
)
from cqrs_cli.core.messages.reaction_id import process_source, read_reaction_id
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.documents import DocumentRedactor
from cqrs_cli.proof.reactions import ReactionCommand

#: Data of at most this number of bytes are never in the payload store: it is the minimum of `payload_threshold`.
_MAX_INLINE_SIZE = 1024


class _SentAttributes(Struct):
    id: str = ""
    source: str = ""
    deferredfrom: str | None = None
    forwardedfrom: str | None = None


_decode_attributes = msgspec.json.Decoder(_SentAttributes).decode


class ProcessCommands:
    """The commands of a process manager. `locations`: events topic → id prefix → number → commands with this id.

    The id prefix and the number are parts of the command's id (`ReactionId`): the prefix identifies the event, and the
    number counts the commands for this event from 0.
    """

    def __init__(self, process: str, redactors: Mapping[str, DocumentRedactor] | None = None) -> None:
        """`redactors`: commands topic of an aggregate with personal fields → function that omits personal values."""
        self.locations: dict[str, dict[str, dict[int, list[ReactionCommand]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        self.redactors = redactors or {}
        self._forwarded_copies: dict[str, bytes] = {}  # location of a forwarded copy → digest of the command
        self._source = process_source(process)
        self._source_bytes = self._source.encode()

    def add_if_sent(self, record: Record, topic: str, partition: int) -> None:
        """Add the record if it is a command that the process manager has sent.

        Commands that an owner has resubmitted are not added. A forwarded command is not added if it equals its
        original. Read the partitions in ascending order, so that the original is read before the forwarded command.
        """
        attributes = self._read_attributes(record)
        if attributes is None or attributes.deferredfrom is not None:
            return
        id = read_reaction_id(attributes.id)
        if id is not None:
            copies, value = self.locations[id.topic][id.id_prefix][id.number], record.value or b""
            if attributes.forwardedfrom is not None:
                value = without_forwarded_attribute(value, attributes.forwardedfrom)
            digest = command_digest(topic, record.key, value, self.redactors.get(topic))
            if attributes.forwardedfrom is not None:
                original = f"{topic}:{attributes.forwardedfrom.replace('/', '@')}"
                original_digest = next((copy.digest for copy in copies if str(copy) == original), None)
                if digest in (original_digest, self._forwarded_copies.get(original)):
                    self._forwarded_copies[f"{topic}:{partition}@{record.offset}"] = digest
                    return
            copies.append(ReactionCommand(topic, partition, digest, record.offset))

    def _read_attributes(self, record: Record) -> _SentAttributes | None:
        """Return the attributes of a command of this process manager, in either CloudEvents mode; None for any other
        record.

        The attributes of a JSON document are returned even if the record lacks the headers of a command: no owner
        accepts such a record, so verification must report it.
        """
        value = record.value or b""
        if self._source_bytes in value or b"\\" in value:
            with suppress(ValueError, RecursionError):
                attributes = _decode_attributes(value)
                if attributes.source == self._source:
                    return attributes
        if record.headers and record.headers != HEADERS:
            with suppress(CheckFailed):
                envelope = read_command(record)
                if envelope.source == self._source:
                    return _SentAttributes(envelope.id, envelope.source, envelope.deferredfrom)
        return None


def without_forwarded_attribute(value: bytes, forwarded_from: str) -> bytes:
    """Return the command document without the attribute that an owner added when it forwarded the command."""
    attribute = b',"forwardedfrom":"%s"}' % forwarded_from.encode()
    return value[: -len(attribute)] + b"}" if value.endswith(attribute) else value


def command_digest(
    topic: str, key: bytes | None, value: bytes | None, redact: DocumentRedactor | None = None
) -> bytes:
    """Return the digest of a command. It does not depend on whether the data are in the record or in the payload store.

    `redact` omits the personal values, because the expected command is computed from its event, where the values may be
    erased by now. With `redact`, the data must be in the record.
    """
    value = value or b""
    if redact is not None:
        value = redact(value)
    if len(value) > _MAX_INLINE_SIZE:
        with suppress(ValueError, RecursionError):  # not a document of a process manager
            data = data_of_document(value)
            if data is not None and len(data) > _MAX_INLINE_SIZE:
                value = with_reference(value, payload_folder(topic), reference_to(data))
    return blake2b(value, digest_size=8, key=blake2b(key or b"", digest_size=8).digest()).digest()
