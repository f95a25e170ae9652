"""Resolves an in-doubt transaction of a partition's writer: commits or aborts all of its parts.

Kafka may complete a transaction and still leave it open on some of its partitions (see kafka/admin/hanging.py). Then
the log after it is hidden from every later owner, or the group's offset stays pending.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.core.deferral.document import read_forwardedfrom
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.offsets import has_pending_commit
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.kafka.writer import KEY_CAUSE
from cqrs_cli.keyspace.assigned_keys import AssignedKeys
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, Claim, parse_claim
from cqrs_cli.ownership.open_transactions import resolution_text


class CommandTraces(NamedTuple):
    """Offsets of commands, found by the records that the commands left in a partition's logs: the last visible record
    and the first hidden record of each log. None if there is no such record.
    """

    committed: int | None  # the group's offset; a pending commit is ignored
    last_outcome: int | None  # the command of the last visible outcome
    last_event: int | None  # the command of the last visible event
    hidden_outcome: int | None  # the command of the first hidden outcome
    hidden_event: int | None  # the command of the first hidden event
    hidden_forward: int | None = None  # the first forwarded command that is hidden
    hidden_key: int | None = None  # the first command of a batch with a hidden key record

    @property
    def hidden(self) -> list[int]:
        """The commands of the hidden records, which belong to the in-doubt transaction."""
        offsets = (self.hidden_outcome, self.hidden_event, self.hidden_forward, self.hidden_key)
        return [offset for offset in offsets if offset is not None]


class RepartitioningTraces(NamedTuple):
    """The state of a partition's repartitioning, by its claim and by the visible partition history."""

    claimed_count: int  # the partition count in the claim
    recorded_count: int  # the partition count in the visible history
    has_begun: bool = False  # the child's `begun` is visible
    hides_inherited: bool = False  # inherited deferred commands are hidden
    has_decided: bool = False  # an outcome exists, visible or hidden

    @property
    def is_visible(self) -> bool:
        """True if a part of the transaction of a split, or of a child's `begun`, is visible to readers."""
        return self.claimed_count > self.recorded_count or (
            self.has_begun and self.hides_inherited and not self.has_decided
        )


def was_committed(traces: CommandTraces) -> bool:
    """Return True if a part of the in-doubt transaction is visible: then the rest must be committed, too.

    A writer decides commands in order, one transaction after the other. So a visible record of a command at or after
    the first hidden command is a part of the in-doubt transaction. If no part is visible, no reader has seen the
    transaction: it may be aborted and its commands decided again, even if Kafka confirmed the commit to its writer.
    """
    visible = [offset for offset in (traces.last_outcome, traces.last_event) if offset is not None]
    hidden = traces.hidden
    if not hidden:  # only the offset is pending
        return max(visible, default=-1) >= (traces.committed or 0)
    return max(*visible, (traces.committed or 0) - 1, -1) >= min(hidden)


def resolve_in_doubt(
    log: PartitionLog,
    topic_id: str,
    timeout_ms: int,
    offset_pending: bool,
    report: Callable[[str], None],
    visible_keys: Callable[[], AssignedKeys | None] = lambda: None,
    keys: int | None = None,
) -> bool:
    """Resolve an in-doubt transaction of the partition's writer, and report it to `report`. Return True if there was an
    in-doubt transaction.

    The writer is fenced first, so a transaction that is still open was left open by Kafka. `offset_pending`: the
    group's offset seems to stay pending. `visible_keys`: returns the assigned keys by the visible partition history.
    `keys`: the partition of the keys topic, for an aggregate with personal fields. Nothing is changed if a transaction
    of another client is open, too, if the claim names another topic than `topic_id`, or if Kafka does not answer.
    """
    try:
        committed = _resolve(log, topic_id, timeout_ms, offset_pending, visible_keys(), keys)
    except (CqrsError, KafkaException):
        return False
    if committed is not None:
        report(f"{log.log_name('commands')}: {resolution_text(committed)}")
    return committed is not None


def hides_forwards(log: PartitionLog, children: Iterable[int]) -> bool:
    """Return True if the writer has a transaction open on the commands of one of these children. Call it after the
    fence: a transaction that is still open then was left open by Kafka.
    """
    with Admin(log.connection) as admin:
        writer = admin.producer_of(log.topics.transactional_id(log.partition))
        producers = admin.open_producers((log.topics.commands, child) for child in children)
    return any(writer in open_producers for open_producers in producers.values())


def _resolve(
    log: PartitionLog,
    topic_id: str,
    timeout_ms: int,
    offset_pending: bool,
    assigned_keys: AssignedKeys | None,
    keys: int | None,
) -> bool | None:
    """Return True if the transaction was committed, False if it was aborted, None if none was resolved."""
    own_logs = [(log.topics.name(kind), log.partition) for kind in KINDS]
    shared_logs = _shared_logs(log, assigned_keys, keys)
    with Admin(log.connection) as admin:
        writer = admin.fence_writer(log.topics.transactional_id(log.partition), timeout_ms)
        producers = admin.open_producers([*own_logs, *shared_logs])
        own_producers = {
            log_partition: starts
            for log_partition, starts in producers.items()
            if log_partition not in shared_logs
        }
        own_without_commands = {
            log_partition: starts
            for log_partition, starts in own_producers.items()
            if log_partition[0] != log.topics.commands
        }
        producer_ids = set[int]().union(*own_without_commands.values()) | (
            {writer.producer_id} & set[int]().union(*producers.values())
        )
        group_position = log.committed_position()
        claim = parse_claim(group_position.metadata)
        group, commands = log.topics.group, log.topics.commands
        offset_pending = (
            offset_pending
            and not producer_ids
            and has_pending_commit(log.connection, group, commands, log.partition)
        )
        if producer_ids - {writer.producer_id} or not (producer_ids or offset_pending):
            return None
        if claim is not None and claim.topic_id not in (UNKNOWN_TOPIC, topic_id):
            return None
        forward_starts = {
            log_partition[1]: starts[writer.producer_id]
            for log_partition, starts in producers.items()
            if log_partition in shared_logs and log_partition[0] == commands and writer.producer_id in starts
        }
        traces = _command_traces(log, group_position.offset, claim, forward_starts)
        if (
            keys is not None
            and (start := producers[log.topics.keys, keys].get(writer.producer_id)) is not None
        ):
            traces = traces._replace(hidden_key=_command_of_keys(log, keys, start))
        hides_inherited = writer.producer_id in producers[log.topics.deferred, log.partition]
        is_split_visible = (
            assigned_keys is not None
            and _repartitioning_traces(assigned_keys, claim, traces, hides_inherited).is_visible
        )
        commit = is_split_visible or was_committed(traces)
        shared_with_writer = [
            log_partition for log_partition in shared_logs if writer.producer_id in producers[log_partition]
        ]
        admin.end_hanging(writer, [*own_logs, *shared_with_writer], group, commit)
    return commit


def _shared_logs(
    log: PartitionLog, assigned_keys: AssignedKeys | None, keys: int | None
) -> list[tuple[str, int]]:
    """Return the logs that other writers write to, too: the keys, the partition history, the children's commands."""
    shared = [] if keys is None else [(log.topics.keys, keys)]
    if assigned_keys is not None:
        shared.append((log.topics.lineage, 0))
        shared += ((log.topics.commands, child) for child in assigned_keys.target_partitions)
    return shared


def _repartitioning_traces(
    assigned_keys: AssignedKeys,
    claim: Claim | None,
    traces: CommandTraces,
    hides_inherited: bool,
) -> RepartitioningTraces:
    recorded_count = assigned_keys.effective_count
    claimed_count = recorded_count if claim is None else claim.partitions
    has_decided = traces.last_outcome is not None or bool(traces.hidden)
    return RepartitioningTraces(
        claimed_count, recorded_count, assigned_keys.has_begun, hides_inherited, has_decided
    )


def _command_traces(
    log: PartitionLog, committed: int | None, claim: Claim | None, forward_starts: Mapping[int, int]
) -> CommandTraces:
    """Return the traces of a partition. `forward_starts`: child partition → the offset in the child's commands at which
    the writer's transaction begins.
    """
    accepted_loss = claim.accepted if claim is not None else None
    first_valid: dict[Kind, int] = {"events": 0, "outcomes": 0}  # after an accepted loss
    if accepted_loss is not None:
        first_valid = {"events": accepted_loss.events[1], "outcomes": accepted_loss.outcomes}

    def last_visible_command(kind: Kind) -> int | None:
        start, end = log.bounds(kind)
        record = log.last_record(kind, max(start, first_valid[kind]), end)
        return None if record is None else _command_of_record(kind, record.value)

    def first_hidden_command(kind: Kind) -> int | None:
        record = log.first_hidden_record(kind)
        return None if record is None else _command_of_record(kind, record.value)

    hidden_forward = min(
        (
            command
            for forward in forward_starts.items()
            if (command := _first_forwarded_command(log, *forward)) is not None
        ),
        default=None,
    )
    return CommandTraces(
        committed,
        last_visible_command("outcomes"),
        last_visible_command("events"),
        first_hidden_command("outcomes"),
        first_hidden_command("events"),
        hidden_forward,
    )


def _first_forwarded_command(log: PartitionLog, child: int, start: int) -> int | None:
    """Return the offset of the first command of this partition that was forwarded to the child, from the offset `start`
    of the child's commands on.
    """
    topic = log.topics.commands
    _, end = replace(log, partition=child).bounds("commands", "read_uncommitted")
    for records in readers.read(log.connection, topic, child, start, end, "read_uncommitted"):
        for record in records:
            source = read_forwardedfrom(record.value)
            if source is not None and source[0] == log.partition:
                return source[1]
    return None


def _command_of_keys(log: PartitionLog, keys: int, start: int) -> int | None:
    """Return the first command of the batch whose keys begin at `start`; None for re-wrapped keys, which have no
    command.
    """
    topic = log.topics.keys
    for records in readers.read(log.connection, topic, keys, start, start + 1, "read_uncommitted"):
        cause = dict(records[0].headers or ()).get(KEY_CAUSE)
        return None if cause is None else int(cause)
    return None


def _command_of_record(kind: Kind, value: bytes | None) -> int:
    """Return the offset of the command that a record belongs to."""
    try:
        return read_outcome(value).data.offset if kind == "outcomes" else read_event(value).position()[1]
    except ValueError as error:
        raise CqrsError(f"a record of the {kind} cannot be read: {error}", "cqrs verify") from error
