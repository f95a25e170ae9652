"""Resolves an in-doubt transaction of a partition's writer: all of it counts, or nothing.

Kafka may leave a transaction open on some of its partitions, and count it as complete (see kafka/admin/hanging.py). The
log after it is then hidden from every later owner, or the group's offset stays pending.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.core.deferral.document import read_forwardedfrom
from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.offsets import has_pending_commit
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.kafka.writer import KEY_CAUSE
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, Claim, parse_claim
from cqrs_cli.ownership.open_transactions import resolution_text


class CommandTraces(NamedTuple):
    """The commands named by the last visible and the first hidden records of a partition's logs, as offsets of the
    commands; None if there is no such record.

    `committed`: the group's offset, without a pending commit.
    """

    committed: int | None
    last_outcome: int | None  # of the last visible outcome
    last_event: int | None
    hidden_outcome: int | None  # of the first hidden outcome
    hidden_event: int | None
    hidden_forward: int | None = None  # the first forwarded command that is hidden
    hidden_key: int | None = None  # the first command of a batch with a hidden key record

    @property
    def hidden(self) -> list[int]:
        """The commands of the hidden records, which belong to the in-doubt transaction."""
        found = (self.hidden_outcome, self.hidden_event, self.hidden_forward, self.hidden_key)
        return [offset for offset in found if offset is not None]


class GrowthTraces(NamedTuple):
    """The repartitioning of a partition, by its claim and by the visible partition history."""

    claimed: int  # the count in the claim
    told: int  # the count in the history
    has_begun: bool = False
    inherits: bool = False  # inherited entries are hidden
    has_decided: bool = False

    @property
    def show_commit(self) -> bool:
        """True if a part of a split or of a child's `begun` is visible: a reader may have seen it."""
        return self.claimed > self.told or (self.has_begun and self.inherits and not self.has_decided)


def was_committed(traces: CommandTraces) -> bool:
    """Return True if a part of the in-doubt transaction is visible: then all of it must be.

    A writer's transactions follow each other in the order of the commands. So a visible trace of a command at or after
    the first hidden command is of the in-doubt transaction. If no part is visible, no reader has seen the transaction.
    It may be aborted and its commands decided again, even if Kafka confirmed the commit to its writer.
    """
    decided = [offset for offset in (traces.last_outcome, traces.last_event) if offset is not None]
    hidden = traces.hidden
    if not hidden:  # only the offset is pending
        return max(decided, default=-1) >= (traces.committed or 0)
    return max(*decided, (traces.committed or 0) - 1, -1) >= min(hidden)


def resolve_in_doubt(
    log: PartitionLog,
    topic_id: str,
    timeout_ms: int,
    pending: bool,
    note: Callable[[str], None],
    lineage: Callable[[], PartitionLineage | None] = lambda: None,
    keys: int | None = None,
) -> bool:
    """Resolve an in-doubt transaction that the writer had left, and report it to `note`. Return True if there was one.

    The writer is fenced first, so a transaction that is still open was left open by Kafka. `pending`: the group's
    offset seems to stay pending. `lineage`: returns the visible partition history after a repartitioning. `keys`: the
    partition of the keys topic, for an aggregate with personal fields. Nothing is done if another client's transaction
    is open, too, if the claim is of another topic than `topic_id`, or if Kafka does not answer.
    """
    try:
        end = _resolve(log, topic_id, timeout_ms, pending, lineage(), keys)
    except (CqrsError, KafkaException):
        return False
    if end is not None:
        note(f"{log.log_name('commands')}: {resolution_text(end)}")
    return end is not None


def hides_forwards(log: PartitionLog, children: Iterable[int]) -> bool:
    """Return True if the writer has a transaction open on the commands of one of these children. Call it after the
    writer's fence: then Kafka has left the transaction open.
    """
    with Admin(log.connection) as admin:
        writer = admin.producer_of(log.topics.transactional_id(log.partition))
        found = admin.open_producers((log.topics.commands, one) for one in children)
    return any(writer in opened for opened in found.values())


def _resolve(
    log: PartitionLog,
    topic_id: str,
    timeout_ms: int,
    pending: bool,
    lineage: PartitionLineage | None,
    keys: int | None,
) -> bool | None:
    """Return True if the transaction was committed, False if it was aborted, None if none was resolved."""
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
        found = log.committed_position()
        claim = parse_claim(found.metadata)
        group, commands = log.topics.group, log.topics.commands
        pending = (
            pending and not opened and has_pending_commit(log.connection, group, commands, log.partition)
        )
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
    """Return the logs that other writers write to, too: the keys, the partition history, the children's commands."""
    shared = [] if keys is None else [(log.topics.keys, keys)]
    if lineage is not None:
        shared.append((log.topics.lineage, 0))
        shared += ((log.topics.commands, one) for one in lineage.target_partitions(log.partition))
    return shared


def _growth(
    log: PartitionLog,
    lineage: PartitionLineage,
    claim: Claim | None,
    traces: CommandTraces,
    inherits: bool,
) -> GrowthTraces:
    told = lineage.effective_count(log.partition)
    claimed = told if claim is None else claim.partitions
    begun = log.partition in lineage.activated
    return GrowthTraces(
        claimed, told, begun, inherits, traces.last_outcome is not None or bool(traces.hidden)
    )


def _traces(
    log: PartitionLog, committed: int | None, claim: Claim | None, forwards: Mapping[int, int]
) -> CommandTraces:
    """`forwards`: for each child, the offset of its commands at which the writer's transaction begins."""
    accepted = claim.accepted if claim is not None else None
    since: dict[Kind, int] = {"events": 0, "outcomes": 0}
    if accepted is not None:
        since = {"events": accepted.events[1], "outcomes": accepted.outcomes}

    def last(kind: Kind) -> int | None:
        start, end = log.bounds(kind)
        record = log.last_record(kind, max(start, since[kind]), end)
        return None if record is None else _command(kind, record.value)

    def hidden(kind: Kind) -> int | None:
        record = log.first_hidden_record(kind)
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
    """Return the first command of the partition that a child's commands contain from offset `start` on."""
    topic = log.topics.commands
    _, end = replace(log, partition=child).bounds("commands", "read_uncommitted")
    for records in readers.read(log.connection, topic, child, start, end, "read_uncommitted"):
        for record in records:
            place = read_forwardedfrom(record.value)
            if place is not None and place[0] == log.partition:
                return place[1]
    return None


def _keyed(log: PartitionLog, keys: int, start: int) -> int | None:
    """Return the first command of the batch whose keys begin at `start`; None for re-wrapped keys, which have no
    command.
    """
    topic = log.topics.keys
    for records in readers.read(log.connection, topic, keys, start, start + 1, "read_uncommitted"):
        noted = dict(records[0].headers or ()).get(KEY_CAUSE)
        return None if noted is None else int(noted)
    return None


def _command(kind: Kind, value: bytes | None) -> int:
    """Return the offset of the command that a record belongs to."""
    try:
        return read_outcome(value).data.offset if kind == "outcomes" else read_event(value).position()[1]
    except ValueError as error:
        raise CqrsError(f"a record of the {kind} cannot be read: {error}", "cqrs verify") from error
