"""Settles a hanging transaction of a partition's writer: all of it counts, or nothing.

Kafka may leave a transaction open on some of its partitions and count it as complete (see kafka/admin/hanging.py). The
log behind it is hidden then, or the group's offset stays pending, from every owner that comes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.core.deferral.document import forwarded_from
from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.offsets import is_pending
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.kafka.writer import KEY_CAUSE
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, Claim, parse_claim
from cqrs_cli.ownership.settle import settlement


class CommandTraces(NamedTuple):
    """The commands that a partition's logs tell of, as offsets of the commands; None where there is none.

    `committed`: the group's offset, without a commit that is pending.
    """

    committed: int | None
    last_outcome: int | None  # of those that are visible
    last_event: int | None
    hidden_outcome: int | None  # the first of those that are not
    hidden_event: int | None
    hidden_forward: int | None = None  # the first command that was forwarded out of sight
    hidden_key: int | None = None  # the first command of a batch that has written a key out of sight

    @property
    def hidden(self) -> list[int]:
        """The commands of the hanging transaction that left a trace."""
        found = (self.hidden_outcome, self.hidden_event, self.hidden_forward, self.hidden_key)
        return [offset for offset in found if offset is not None]


class GrowthTraces(NamedTuple):
    """The growth of a partition, as its claim and the visible lineage tell it."""

    claimed: int  # the count in the claim
    told: int  # by the lineage
    has_begun: bool = False
    inherits: bool = False  # entries that it takes over are hidden
    has_decided: bool = False

    @property
    def show_commit(self) -> bool:
        """True if a part of a split or of a child's beginning is visible: somebody may have seen it."""
        return self.claimed > self.told or (self.has_begun and self.inherits and not self.has_decided)


def was_committed(traces: CommandTraces) -> bool:
    """True if a part of the hanging transaction is visible: then all of it must be.

    A writer's transactions follow each other in the order of the commands, so a visible trace of a command at or
    behind the first hidden one is of the same transaction. Nobody has seen one of which nothing is visible: it may be
    aborted, and its commands decided again, whatever its writer was told.
    """
    decided = [offset for offset in (traces.last_outcome, traces.last_event) if offset is not None]
    hidden = traces.hidden
    if not hidden:  # only the offset is pending
        return max(decided, default=-1) >= (traces.committed or 0)
    return max(*decided, (traces.committed or 0) - 1, -1) >= min(hidden)


def settled(
    log: PartitionLog,
    topic_id: str,
    timeout_ms: int,
    pending: bool,
    note: Callable[[str], None],
    lineage: Callable[[], PartitionLineage | None] = lambda: None,
    keys: int | None = None,
) -> bool:
    """True if the writer had left a transaction hanging: it is settled now, and `note` was told.

    The writer is fenced first: nobody may have a transaction open then. `pending`: the group's offset seems to stay
    pending. `lineage`: what is visible of it, of an aggregate that has grown. `keys`: the partition of the keys topic,
    of one with personal fields. Nothing is done where a stranger's transaction is open, too, for a claim of another
    topic than `topic_id`, or while Kafka does not answer.
    """
    try:
        end = _settle(log, topic_id, timeout_ms, pending, lineage(), keys)
    except (CqrsError, KafkaException):
        return False
    if end is not None:
        note(f"{log.place('commands')}: {settlement(end)}")
    return end is not None


def hides_forwards(log: PartitionLog, children: Iterable[int]) -> bool:
    """True if the writer has a transaction open on the commands of one of these children. Ask behind its fence: then
    Kafka has left it open.
    """
    with Admin(log.connection) as admin:
        writer = admin.producer_of(log.topics.transactional_id(log.partition))
        found = admin.open_producers((log.topics.commands, one) for one in children)
    return any(writer in opened for opened in found.values())


def _settle(
    log: PartitionLog,
    topic_id: str,
    timeout_ms: int,
    pending: bool,
    lineage: PartitionLineage | None,
    keys: int | None,
) -> bool | None:
    """True if it was committed, False if it was aborted; None: nothing hung."""
    ours = [(log.topics.name(kind), log.partition) for kind in KINDS]
    shared = _shared(log, lineage, keys)
    with Admin(log.connection) as admin:
        writer = admin.fence_writer(log.topics.transactional_id(log.partition), timeout_ms)
        producers = admin.open_producers([*ours, *shared])
        alone = {place: found for place, found in producers.items() if place not in shared}
        others = {place: found for place, found in alone.items() if place[0] != log.topics.commands}
        opened = set[int]().union(*others.values()) | (
            {writer.producer_id} & set[int]().union(*producers.values())
        )
        found = log.committed()
        claim = parse_claim(found.metadata)
        group, commands = log.topics.group, log.topics.commands
        pending = pending and not opened and is_pending(log.connection, group, commands, log.partition)
        if opened - {writer.producer_id} or not (opened or pending):
            return None
        if claim is not None and claim.topic_id not in (UNKNOWN_TOPIC, topic_id):
            return None
        forwards = {
            place[1]: begun[writer.producer_id]
            for place, begun in producers.items()
            if place in shared and place[0] == commands and writer.producer_id in begun
        }
        traces = _traces(log, found.offset, claim, forwards)
        if (
            keys is not None
            and (start := producers[log.topics.keys, keys].get(writer.producer_id)) is not None
        ):
            traces = traces._replace(hidden_key=_keyed(log, keys, start))
        inherits = writer.producer_id in producers[log.topics.deferred, log.partition]
        grows = lineage is not None and _growth(log, lineage, claim, traces, inherits).show_commit
        commit = grows or was_committed(traces)
        touched = [place for place in shared if writer.producer_id in producers[place]]
        admin.end_hanging(writer, [*ours, *touched], group, commit)
    return commit


def _shared(log: PartitionLog, lineage: PartitionLineage | None, keys: int | None) -> list[tuple[str, int]]:
    """The logs on which other writers have transactions open, too: the keys, the lineage, its children's commands."""
    shared = [] if keys is None else [(log.topics.keys, keys)]
    if lineage is not None:
        shared.append((log.topics.lineage, 0))
        shared += ((log.topics.commands, one) for one in lineage.children(log.partition))
    return shared


def _growth(
    log: PartitionLog,
    lineage: PartitionLineage,
    claim: Claim | None,
    traces: CommandTraces,
    inherits: bool,
) -> GrowthTraces:
    told = lineage.judging(log.partition)
    claimed = told if claim is None else claim.partitions
    begun = log.partition in lineage.begun
    return GrowthTraces(
        claimed, told, begun, inherits, traces.last_outcome is not None or bool(traces.hidden)
    )


def _traces(
    log: PartitionLog, committed: int | None, claim: Claim | None, forwards: Mapping[int, int]
) -> CommandTraces:
    """`forwards`: where the writer's transaction begins in the commands of each child."""
    accepted = claim.accepted if claim is not None else None
    since: dict[Kind, int] = {"events": 0, "outcomes": 0}
    if accepted is not None:
        since = {"events": accepted.events[1], "outcomes": accepted.outcomes}

    def last(kind: Kind) -> int | None:
        start, end = log.bounds(kind)
        record = log.last_record(kind, max(start, since[kind]), end)
        return None if record is None else _command(kind, record.value)

    def hidden(kind: Kind) -> int | None:
        record = log.first_hidden(kind)
        return None if record is None else _command(kind, record.value)

    hidden_forward = min(
        (found for one in forwards.items() if (found := _forwarded(log, *one)) is not None), default=None
    )
    return CommandTraces(
        committed,
        last("outcomes"),
        last("events"),
        hidden("outcomes"),
        hidden("events"),
        hidden_forward,
    )


def _forwarded(log: PartitionLog, child: int, start: int) -> int | None:
    """The first command of the partition that was forwarded to a child from this offset of its commands on."""
    topic = log.topics.commands
    _, end = replace(log, partition=child).bounds("commands", "read_uncommitted")
    for records in readers.read(log.connection, topic, child, start, end, "read_uncommitted"):
        for record in records:
            place = forwarded_from(record.value)
            if place is not None and place[0] == log.partition:
                return place[1]
    return None


def _keyed(log: PartitionLog, keys: int, start: int) -> int | None:
    """The first command of the batch whose keys begin there; None for keys that were wrapped anew, by no command."""
    topic = log.topics.keys
    for records in readers.read(log.connection, topic, keys, start, start + 1, "read_uncommitted"):
        noted = dict(records[0].headers or ()).get(KEY_CAUSE)
        return None if noted is None else int(noted)
    return None


def _command(kind: Kind, value: bytes | None) -> int:
    """The offset of the command that a record is of."""
    try:
        return read_outcome(value).data.offset if kind == "outcomes" else read_event(value).position()[1]
    except ValueError as error:
        raise CqrsError(f"a record of the {kind} cannot be read: {error}", "cqrs verify") from error
