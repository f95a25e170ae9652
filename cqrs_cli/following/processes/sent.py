"""The commands that a process has sent, as its proof takes them from the topics of commands."""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b

import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.payload_reference import data_within, payload_folder, refer, with_reference
from cqrs_cli.core.messages.reaction_id import process_source, read_reaction_id
from cqrs_cli.core.messages.reasons import Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.documents import MaskDocument
from cqrs_cli.proof.reactions import ReactionPlace

#: Bytes of data that are never in the payload store: the least that `payload_threshold` can be.
_SMALL = 1024


class _Claim(Struct):
    id: str = ""
    source: str = ""
    deferredfrom: str | None = None
    forwardedfrom: str | None = None


_claim_in = msgspec.json.Decoder(_Claim).decode


class ProcessCommands:
    """The places of commands, by topic of events, origin and number: what says that the process has sent it."""

    def __init__(self, process: str, masks: Mapping[str, MaskDocument] | None = None) -> None:
        """`masks`: by topic of commands, where these have personal fields."""
        self.found: dict[str, dict[str, dict[int, list[ReactionPlace]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        self.masks = masks or {}
        self._forwarded: set[str] = set()  # the places of those that an owner has forwarded
        self._source = process_source(process)
        self._plain = self._source.encode()

    def take(self, record: Record, topic: str, partition: int) -> None:
        """Take a command in, if it is one; those that an owner has resubmitted are not sent by the process.

        Nor are those that an owner has forwarded, if they stand where they came from. Partitions come in their order.
        """
        claim = self._claim(record)
        if claim is None or claim.deferredfrom is not None:
            return
        id = read_reaction_id(claim.id)
        if id is not None:
            copies, value = self.found[id.topic][id.origin][id.number], record.value or b""
            if claim.forwardedfrom is not None:
                came = f"{topic}:{claim.forwardedfrom.replace('/', '@')}"
                if came in self._forwarded or came in map(str, copies):
                    self._forwarded.add(f"{topic}:{partition}@{record.offset}")
                    return
                value = unforwarded(value, claim.forwardedfrom)
            copies.append(
                ReactionPlace(
                    topic,
                    partition,
                    command_digest(topic, record.key, value, self.masks.get(topic)),
                    record.offset,
                )
            )

    def _claim(self, record: Record) -> _Claim | None:
        """The claim of a command about itself, in either mode, however spelt; None if the process has not sent it.

        A document counts without its header, too: a copy that no owner would take was put there by somebody.
        """
        value = record.value or b""
        if self._plain in value or b"\\" in value:
            with suppress(ValueError, RecursionError):
                claim = _claim_in(value)
                if claim.source == self._source:
                    return claim
        if record.headers and record.headers != HEADERS:
            with suppress(Refused):
                envelope = read_command(record)
                if envelope.source == self._source:
                    return _Claim(envelope.id, envelope.source, envelope.deferredfrom)
        return None


def unforwarded(value: bytes, place: str) -> bytes:
    """The document that an owner has forwarded from a place, as it was before."""
    end = b',"forwardedfrom":"%s"}' % place.encode()
    return value[: -len(end)] + b"}" if value.endswith(end) else value


def command_digest(
    topic: str, key: bytes | None, value: bytes | None, masked: MaskDocument | None = None
) -> bytes:
    """The digest of a command, the same whether its data are in the record or in the payload store.

    `masked`: of a command that may have personal fields. They do not count: their values may be erased where the
    process heard them. Then its data are to be in the record.
    """
    value = value or b""
    if masked is not None:
        value = masked(value)
    if len(value) > _SMALL:
        with suppress(ValueError, RecursionError):  # somebody else's
            data = data_within(value)
            if data is not None and len(data) > _SMALL:
                value = with_reference(value, payload_folder(topic), refer(data))
    return blake2b(value, digest_size=8, key=blake2b(key or b"", digest_size=8).digest()).digest()
