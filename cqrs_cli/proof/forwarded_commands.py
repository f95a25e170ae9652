"""The commands that a partition has forwarded (`MOVED`), and the commands that it has received (`forwardedfrom`).

Both sides count the commands of each pair of partitions, with a sum of hashes over original position, key and document.
If the tallies agree, every command has arrived unaltered. They also differ if a client has copied a record with its
`forwardedfrom`, or if retention has deleted records; `lost` finds the commands that are really missing or altered.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from cqrs_cli.core.deferral.document import forwarded_document, read_forwardedfrom
from cqrs_cli.core.messages.command import command_or_none, read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.documents import fits_document
from cqrs_cli.proof.findings import CommandTally
from cqrs_cli.proof.fingerprints import FitsCommand
from cqrs_cli.proof.positions import proved_place
from cqrs_cli.proof.traces import LIMIT, OutcomeTrace

_ATTRIBUTE = b'"forwardedfrom"'


class MovedCommands:
    """The tallies of one partition, by the other partition."""

    def __init__(self, moved: Mapping[int, CommandTally], forwarded: Mapping[int, CommandTally]) -> None:
        """Start from the tallies of an earlier verification."""
        self._moved, self._forwarded = dict(moved), dict(forwarded)

    def note(self, partition: int, offset: int, record: Record | None, outcome: OutcomeTrace | None) -> None:
        """Count the command at `offset` of `partition`, if it was forwarded or received."""
        if outcome is not None and outcome.reason == "MOVED" and outcome.movedto is not None:
            _count(self._moved, outcome.movedto, _hash(partition, offset, _sent_digest(partition, record)))
        if record is not None and (came := forwarded(record)) is not None:
            _count(self._forwarded, came.partition, _hash(came.partition, came.offset, _digest(record)))

    def tallies(self) -> tuple[dict[int, CommandTally], dict[int, CommandTally]]:
        """Return the tallies of commands forwarded to each partition, and of commands received from each partition."""
        return dict(self._moved), dict(self._forwarded)


class ForwardOrigin(NamedTuple):
    """The original position of a forwarded command, from `forwardedfrom`, and its id."""

    partition: int
    offset: int
    id: str


def forwarded(record: Record) -> ForwardOrigin | None:
    """Return the original position of a forwarded command; None for a command without a valid `forwardedfrom`."""
    if _ATTRIBUTE not in (record.value or b""):
        return None
    try:
        place, id = read_forwardedfrom(record.value), read_command(record).id
    except CheckFailed:
        return None
    return None if place is None else ForwardOrigin(*place, id)


class _Forwarded(NamedTuple):
    """A command that should be in another partition: its `MOVED` outcome, and the offset of the outcome."""

    at: int
    outcome: OutcomeEnvelope


def lost(
    source: int,
    to: int,
    outcomes: Iterable[Record],
    originals: Iterable[Record],
    commands: Iterable[Record],
    since: int | None,
    fits: FitsCommand,
) -> Iterator[tuple[int, str]]:
    """Yield the outcome offset and a message for each command that `source` forwarded to partition `to`, but that `to`
    lacks, or has with other content.

    `originals`: the commands of `source`; `commands`: the commands of `to`. A command whose original was deleted is
    compared with its outcome. `since` (ms): retention may have deleted commands that arrived in `to` before this time;
    None: no record was deleted.
    """
    missing: dict[ForwardOrigin, _Forwarded] = {}
    for record in outcomes:
        try:
            outcome = read_outcome(record.value)
        except ValueError:
            continue  # the verification reports it
        data = outcome.data
        if data.reason == "MOVED" and data.movedto == to and (since is None or record.timestamp > since):
            origin = ForwardOrigin(source, data.offset, outcome.causationid or "")
            missing[origin] = _Forwarded(record.offset, outcome)
    offsets = {origin.offset for origin in missing}
    digests = {one.offset: _sent_digest(source, one) for one in originals if one.offset in offsets}
    altered: dict[ForwardOrigin, int] = {}  # the offset of the copy
    for record in commands:
        came = forwarded(record)
        if came is None or came not in missing:
            continue
        sent = digests.get(came.offset)
        if _digest(record) == sent if sent is not None else _fits(missing[came].outcome, record, fits):
            del missing[came]
        else:
            altered[came] = record.offset
    for command, (at, _) in missing.items():
        place = proved_place(command.offset, source)
        if (copy := altered.get(command)) is not None:
            yield (
                at,
                f"is MOVED, and command {to}/{copy}, which was forwarded from {place}, has other content",
            )
        else:
            what = f"has no command {command.id!r} that was forwarded from {place}"
            yield at, f"is MOVED, and partition {to} {what}"


def _fits(outcome: OutcomeEnvelope, record: Record, fits: FitsCommand) -> bool:
    """True if a received command has the content that the `MOVED` outcome of its deleted original names."""
    envelope, mark = command_or_none(record), outcome.data.fingerprint
    if envelope is None or not isinstance(mark, int):
        return False
    named = outcome.subject, outcome.correlationid
    same = named == (envelope.subject, envelope.correlationid or envelope.id)
    return same and fits_document(envelope, mark, fits)


def _sent_digest(partition: int, original: Record | None) -> bytes | None:
    """Return the digest of the record to which an owner forwards this command; None for a deleted command."""
    envelope = command_or_none(original)
    if original is None or envelope is None:
        return None
    try:
        document = forwarded_document(original, envelope, f"{partition}/{original.offset}")
    except CheckFailed:
        return None
    return _digest(Record(0, 0, original.key, document, [*HEADERS]))


def _digest(record: Record) -> bytes:
    """Return the digest of a forwarded record: headers, key and document."""
    key = b"%d" % len(record.key or b"") + b"/" + (record.key or b"")
    return blake2b(b"%d" % (record.headers == HEADERS) + key + (record.value or b""), digest_size=8).digest()


def _count(tallies: dict[int, CommandTally], partition: int, mark: int) -> None:
    count, total = tallies.get(partition, (0, 0))
    tallies[partition] = (count + 1, (total + mark) % LIMIT)


def _hash(partition: int, offset: int, digest: bytes | None) -> int:
    whole = blake2b(f"{partition}/{offset}/".encode() + (digest or b""), digest_size=8).digest()
    return int.from_bytes(whole, "big") % LIMIT
