"""The commands that a partition has forwarded (`MOVED`), and the commands that it has received (`forwardedfrom`).

Each partition counts the commands that it exchanged with each other partition, and sums their hashes over original
position, key and document. If the tallies of sender and receiver agree, every command has arrived unaltered. Tallies
also differ if a client has copied a record with its `forwardedfrom`, or if retention has deleted records. So if tallies
differ, `missing_commands` finds the commands that are really missing or altered.
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
from cqrs_cli.proof.fingerprints import FingerprintCheck
from cqrs_cli.proof.index_entries import OutcomeEntry
from cqrs_cli.proof.positions import command_position

_ATTRIBUTE = b'"forwardedfrom"'

#: Hashes, and the sums of hashes in tallies, are taken modulo this number.
_HASH_LIMIT = 2**63


class ForwardedCommands:
    """The tallies of one partition: other partition → tally of the commands forwarded to it, or received from it."""

    def __init__(
        self, forwarded_to: Mapping[int, CommandTally], received_from: Mapping[int, CommandTally]
    ) -> None:
        """Start from the tallies of an earlier verification."""
        self._forwarded_to, self._received_from = dict(forwarded_to), dict(received_from)

    def count_command(
        self, partition: int, offset: int, record: Record | None, outcome: OutcomeEntry | None
    ) -> None:
        """Count the command at `offset` of `partition`, if it was forwarded or received."""
        if outcome is not None and outcome.reason == "MOVED" and outcome.movedto is not None:
            _count(
                self._forwarded_to, outcome.movedto, _hash(partition, offset, _sent_digest(partition, record))
            )
        if record is not None and (origin := forward_origin_of(record)) is not None:
            _count(
                self._received_from, origin.partition, _hash(origin.partition, origin.offset, _digest(record))
            )

    def tallies(self) -> tuple[dict[int, CommandTally], dict[int, CommandTally]]:
        """Return the tallies of commands forwarded to each partition, and of commands received from each partition."""
        return dict(self._forwarded_to), dict(self._received_from)


class ForwardOrigin(NamedTuple):
    """The original position of a forwarded command, from its attribute `forwardedfrom`, and the command's id."""

    partition: int
    offset: int
    id: str


def forward_origin_of(record: Record) -> ForwardOrigin | None:
    """Return the original position of a forwarded command; None for a command without a valid `forwardedfrom`."""
    if _ATTRIBUTE not in (record.value or b""):
        return None
    try:
        position, id = read_forwardedfrom(record.value), read_command(record).id
    except CheckFailed:
        return None
    return None if position is None else ForwardOrigin(*position, id)


class _MovedOutcome(NamedTuple):
    """The `MOVED` outcome of a command that should be in another partition."""

    offset: int  # offset of the outcome
    outcome: OutcomeEnvelope


def missing_commands(
    source: int,
    target: int,
    outcomes: Iterable[Record],
    originals: Iterable[Record],
    commands: Iterable[Record],
    complete_since: int | None,
    fits: FingerprintCheck,
) -> Iterator[tuple[int, str]]:
    """Yield (offset of the `MOVED` outcome, message) for each command that partition `source` forwarded to partition
    `target`, but that `target` lacks, or has with other content.

    `outcomes`, `originals`: the outcomes and commands of `source`. `commands`: the commands of `target`. A command
    whose original was deleted is compared with its outcome. `complete_since` (ms): retention may have deleted commands
    that arrived in `target` before this time; None: no record was deleted.
    """
    missing: dict[ForwardOrigin, _MovedOutcome] = {}
    for record in outcomes:
        try:
            outcome = read_outcome(record.value)
        except ValueError:
            continue  # the verification reports it
        data = outcome.data
        if (
            data.reason == "MOVED"
            and data.movedto == target
            and (complete_since is None or record.timestamp > complete_since)
        ):
            origin = ForwardOrigin(source, data.offset, outcome.causationid or "")
            missing[origin] = _MovedOutcome(record.offset, outcome)
    offsets = {origin.offset for origin in missing}
    digests = {
        original.offset: _sent_digest(source, original)
        for original in originals
        if original.offset in offsets
    }
    altered: dict[ForwardOrigin, int] = {}  # the offset of the altered copy in `target`
    for record in commands:
        copy_origin = forward_origin_of(record)
        if copy_origin is None or copy_origin not in missing:
            continue
        sent_digest = digests.get(copy_origin.offset)
        if sent_digest is None:
            is_unaltered = _fits(missing[copy_origin].outcome, record, fits)
        else:
            is_unaltered = _digest(record) == sent_digest
        if is_unaltered:
            del missing[copy_origin]
        else:
            altered[copy_origin] = record.offset
    for origin, (offset, _) in missing.items():
        position = command_position(origin.offset, source)
        if (copy := altered.get(origin)) is not None:
            yield (
                offset,
                f"is MOVED, but command {target}/{copy}, which was forwarded from {position}, has other content",
            )
        else:
            problem = f"has no command {origin.id!r} that was forwarded from {position}"
            yield offset, f"is MOVED, but partition {target} {problem}"


def _fits(outcome: OutcomeEnvelope, record: Record, fits: FingerprintCheck) -> bool:
    """True if a received command has the ids and fingerprint of the `MOVED` outcome of its deleted original."""
    envelope, fingerprint = command_or_none(record), outcome.data.fingerprint
    if envelope is None or not isinstance(fingerprint, int):
        return False
    outcome_ids = outcome.subject, outcome.correlationid
    has_same_ids = outcome_ids == (envelope.subject, envelope.correlationid or envelope.id)
    return has_same_ids and fits_document(envelope, fingerprint, fits)


def _sent_digest(partition: int, original: Record | None) -> bytes | None:
    """Return the digest of the record that an owner writes to forward this command; None for a deleted command."""
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


def _count(tallies: dict[int, CommandTally], partition: int, hash_value: int) -> None:
    count, total = tallies.get(partition, (0, 0))
    tallies[partition] = (count + 1, (total + hash_value) % _HASH_LIMIT)


def _hash(partition: int, offset: int, digest: bytes | None) -> int:
    combined = blake2b(f"{partition}/{offset}/".encode() + (digest or b""), digest_size=8).digest()
    return int.from_bytes(combined, "big") % _HASH_LIMIT
