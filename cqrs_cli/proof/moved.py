"""The commands that a partition has forwarded (`MOVED`), and the commands that it has received (`forwardedfrom`).

Both sides count the commands of each pair of partitions, with a sum of hashes. If the tallies agree, no command was
lost. They also differ if a client has copied a record with its `forwardedfrom`, or if retention has deleted records;
`lost` finds the commands that are really missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import NamedTuple

from cqrs_cli.core.deferral.document import forwarded_from
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import CommandTally
from cqrs_cli.proof.places import proved_place
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
            _count(self._moved, outcome.movedto, _hash(partition, offset, outcome.cause or ""))
        if record is not None and (came := forwarded(record)) is not None:
            _count(self._forwarded, came.partition, _hash(*came))

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
        place, id = forwarded_from(record.value), read_command(record).id
    except CheckFailed:
        return None
    return None if place is None else ForwardOrigin(*place, id)


def lost(
    source: int, to: int, outcomes: Iterable[Record], commands: Iterable[Record], since: int | None
) -> Iterator[tuple[int, str]]:
    """Yield the outcome offset and a message for each command that `source` forwarded to partition `to`, but `to`
    lacks.

    `since` (ms): retention may have deleted commands that arrived in `to` before this time; None: no record was
    deleted.
    """
    missing: dict[ForwardOrigin, int] = {}
    for record in outcomes:
        try:
            outcome = read_outcome(record.value)
        except ValueError:
            continue  # the verification reports it
        data = outcome.data
        if data.reason == "MOVED" and data.movedto == to and (since is None or record.timestamp > since):
            missing[ForwardOrigin(source, data.offset, outcome.causationid or "")] = record.offset
    for record in commands:
        if (came := forwarded(record)) is not None:
            missing.pop(came, None)
    for command, at in missing.items():
        place = proved_place(command.offset, source)
        yield (
            at,
            f"is MOVED, and partition {to} has no command {command.id!r} that was forwarded from {place}",
        )


def _count(tallies: dict[int, CommandTally], partition: int, mark: int) -> None:
    count, total = tallies.get(partition, (0, 0))
    tallies[partition] = (count + 1, (total + mark) % LIMIT)


def _hash(partition: int, offset: int, id: str) -> int:
    digest = blake2b(f"{partition}/{offset}/{id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % LIMIT
