"""Resolves an in-doubt transaction of a partition's writer: commits or aborts it on all of its partitions.

Kafka may complete a transaction and still leave it open on some of its partitions (see kafka/admin/hanging.py). Such a
transaction is in doubt. It hides the records after it from every later owner, or keeps the group's offset pending.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.core.deferral.document import read_forwardedfrom
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.outcome import DEAD_LETTER_OFFSET, read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.deferred_fold import has_resubmitted_since, has_resubmitted_visibly
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.offsets import has_pending_commit
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.kafka.writer import FIRST_COMMAND
from cqrs_cli.observer import reached
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, Claim, first_valid_offset, parse_claim
from cqrs_cli.ownership.open_transactions import resolution_text


class CommandTraces(NamedTuple):
    """The evidence about an in-doubt transaction: the group's offset, and the offsets of the commands that caused the
    last visible and the first hidden record of each log. None if there is no such record. A record is hidden if it is
    at or after the last stable offset.
    """

    committed: int | None  # the group's offset; a pending commit is ignored
    last_outcome_command: int | None  # the command of the last visible outcome
    last_event_command: int | None  # the command of the last visible event
    hidden_outcome: int | None  # the command of the first hidden outcome
    hidden_event: int | None  # the command of the first hidden event
    hidden_forward: int | None = None  # the first command whose forwarded copy is hidden in a child's log
    hidden_key: int | None = None  # the first command of the batch that wrote the first hidden key record
    hidden_deferred: int | None = None  # the same for the first hidden record of the deferred topic
    hidden_dead_letter: int | None = None  # the command of the first hidden dead letter

    @property
    def hidden(self) -> list[int]:
        """The commands of the hidden records. All hidden records belong to the in-doubt transaction."""
        offsets = (
            self.hidden_outcome,
            self.hidden_event,
            self.hidden_forward,
            self.hidden_key,
            self.hidden_deferred,
            self.hidden_dead_letter,
        )
        return [offset for offset in offsets if offset is not None]

    @property
    def has_decided(self) -> bool:
        """True if the partition has an outcome, visible or hidden."""
        return self.last_outcome_command is not None or bool(self.hidden)


class RepartitioningTraces(NamedTuple):
    """The evidence about an in-doubt transaction of a split, or of a child's import of its deferred commands. It comes
    from the claim, the partition history and the logs. The transaction that ends the import writes the record `Begun`
    to the partition history.
    """

    claimed_count: int | None  # the partition count in the claim; None without a claim
    recorded_count: int  # the partition count in the visible partition history
    has_imported_deferred: bool = False  # the child's `Begun` is visible
    hides_imported: bool = False  # the transaction hides deferred commands that a child has imported
    has_decided: bool = False  # an outcome exists, visible or hidden

    @property
    def is_visible(self) -> bool:
        """True if a part of the in-doubt transaction is visible: the claim of a split, or the `Begun` of an import."""
        is_split_claimed = self.claimed_count is not None and self.claimed_count > self.recorded_count
        return is_split_claimed or (
            self.has_imported_deferred and self.hides_imported and not self.has_decided
        )


def was_committed(traces: CommandTraces) -> bool:
    """Return True if a part of the in-doubt transaction is visible. Then its other parts must be committed, too.

    A writer decides commands in order, one transaction after the other. So if the command of a visible record is at or
    after the first hidden command, that record belongs to the in-doubt transaction. If no part is visible, no reader
    has seen the transaction. Then the transaction may be aborted and its commands decided again, even if Kafka has
    confirmed the commit to the writer.
    """
    if not traces.hidden:  # only the offset is pending: the next owner takes its position from the outcomes
        return False
    last_committed = None if traces.committed is None else traces.committed - 1
    visible_commands = (traces.last_outcome_command, traces.last_event_command, last_committed)
    return any(offset is not None and offset >= min(traces.hidden) for offset in visible_commands)


def resolve_in_doubt(
    plan: Plan,
    partition: Partition,
    log: PartitionLog,
    offset_pending: bool,
    keys_partition: int | None,
) -> bool:
    """Resolve an in-doubt transaction of the partition's writer, and report the result to the operator. Return True
    if a transaction was resolved.

    This function fences the writer first, so a transaction that is open after the fence was left open by Kafka.
    `offset_pending`: True if the commit of the group's offset seems to stay pending. `keys_partition`: the partition of
    the keys topic; None without personal fields.

    No transaction is resolved in three cases: another client has an open transaction in these logs, too; the claim
    names another topic than the plan's commands topic; or Kafka does not answer.
    """
    try:
        is_committed = _resolve(plan, partition, log, offset_pending, keys_partition)
    except (CqrsError, KafkaException):
        return False
    if is_committed is not None:
        reached("message", text=f"{log.log_name('commands')}: {resolution_text(is_committed)}")
    return is_committed is not None


def hides_commands(log: PartitionLog, partitions: Iterable[int]) -> bool:
    """Return True if the writer of `log` has an open transaction on the commands of one of these partitions. Call this
    function after the fence: a transaction that is open after the fence was left open by Kafka.
    """
    with Admin(log.connection) as admin:
        writer_id = admin.producer_id_of(log.topics.transactional_id(log.partition))
        producers = admin.open_producers((log.topics.commands, partition) for partition in partitions)
    return any(writer_id in open_producers for open_producers in producers.values())


def _resolve(
    plan: Plan,
    partition: Partition,
    log: PartitionLog,
    offset_pending: bool,
    keys_partition: int | None,
) -> bool | None:
    """Return True if the transaction was committed, False if it was aborted, None if none was resolved."""
    topic_id = plan.topics[partition.aggregate].ids["commands"]
    assigned_keys = plan.visible_assigned_keys(partition)
    own_logs = [(log.topics.name(kind), log.partition) for kind in KINDS]
    children = None if assigned_keys is None else assigned_keys.child_partitions
    shared_logs = _shared_logs(log, children, keys_partition)
    with Admin(log.connection) as admin:
        writer = admin.fence_writer(
            log.topics.transactional_id(log.partition), int(plan.timing.transaction_timeout * 1000)
        )
        producers = admin.open_producers([*own_logs, *shared_logs])
        # (topic, partition) → first offset of the writer's open transaction.
        writer_starts = {
            log_partition: first_offsets[writer.producer_id]
            for log_partition, first_offsets in producers.items()
            if writer.producer_id in first_offsets
        }
        group, commands = log.topics.group, log.topics.commands
        # Any client may have an open transaction on the commands, and other owners on the shared logs.
        exclusive_logs = [log_partition for log_partition in own_logs if log_partition[0] != commands]
        if any(producers[log_partition].keys() - {writer.producer_id} for log_partition in exclusive_logs):
            return None
        if not writer_starts and not (
            offset_pending and has_pending_commit(log.connection, group, commands, log.partition)
        ):
            return None
        group_position = log.committed_position()
        claim = parse_claim(group_position.metadata)
        if claim is not None and claim.topic_id not in (UNKNOWN_TOPIC, topic_id):
            return None
        first_resubmitted = writer_starts.get((commands, log.partition))
        forward_starts = {
            partition: start
            for (topic, partition), start in writer_starts.items()
            if topic == commands and partition != log.partition
        }
        traces = _command_traces(log, group_position.offset, claim, forward_starts)
        if keys_partition is not None and (log.topics.keys, keys_partition) in writer_starts:
            start = writer_starts[log.topics.keys, keys_partition]
            traces = traces._replace(hidden_key=_command_of_keys(log, keys_partition, start))
        hidden_entry = log.first_hidden_record("deferred")
        hides_imported = hidden_entry is not None and hidden_entry.value is not None  # a probe has no value
        is_split_visible = assigned_keys is not None and (
            RepartitioningTraces(
                None if claim is None else claim.partitions,
                assigned_keys.effective_count,
                assigned_keys.has_imported_deferred,
                hides_imported,
                traces.has_decided,
            ).is_visible
        )
        commit = (
            is_split_visible
            or was_committed(traces)
            or _is_resubmission_visible(log, topic_id, first_resubmitted)
        )
        shared_with_writer = [
            log_partition for log_partition in shared_logs if log_partition in writer_starts
        ]
        admin.end_hanging(writer, [*own_logs, *shared_with_writer], group, commit)
    return commit


def _shared_logs(
    log: PartitionLog, children: Sequence[int] | None, keys_partition: int | None
) -> list[tuple[str, int]]:
    """Return the logs, as (topic, partition), to which this writer and other writers write: the keys, the partition
    history, and the commands of the `children`. `children`: None without a partition history.
    """
    shared_logs = [] if keys_partition is None else [(log.topics.keys, keys_partition)]
    if children is not None:
        shared_logs.append((log.topics.lineage, 0))
        shared_logs += ((log.topics.commands, child) for child in children)
    return shared_logs


def _command_traces(
    log: PartitionLog, committed: int | None, claim: Claim | None, forward_starts: Mapping[int, int]
) -> CommandTraces:
    """Read the traces of a partition from its logs. `committed`: the group's offset. `forward_starts`: child partition
    → the offset in the child's commands log at which the writer's open transaction begins.
    """
    accepted_loss = None if claim is None else claim.accepted

    def last_visible_command(kind: Literal["events", "outcomes"]) -> int | None:
        start, end = log.bounds(kind)
        record = log.last_record(kind, max(start, first_valid_offset(accepted_loss, kind)), end)
        return None if record is None else _command_of_record(kind, record.value)

    def first_hidden_command(kind: Kind) -> int | None:
        record = log.first_hidden_record(kind)
        if record is None or record.value is None:  # only a probe has no value: `FencedWriter.prove_log_ends`
            return None
        return _command_of_record(kind, record.value)

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
        hidden_deferred=_offset_in_header(log.first_hidden_record("deferred"), FIRST_COMMAND),
        hidden_dead_letter=_offset_in_header(log.first_hidden_record("dead-letters"), DEAD_LETTER_OFFSET),
    )


def _is_resubmission_visible(log: PartitionLog, topic_id: str, first_resubmitted: int | None) -> bool:
    """Return True if the in-doubt transaction resubmits deferred commands, and either the commands or their entries are
    visible. `first_resubmitted`: the first hidden command of the partition's writer; None if it hides no command.
    """
    if first_resubmitted is not None:
        return has_resubmitted_since(log, topic_id, first_resubmitted)
    record = log.first_hidden_record("deferred")
    if record is None or _offset_in_header(record, FIRST_COMMAND) is not None:
        return False  # a batch has written the record
    return has_resubmitted_visibly(log, topic_id, record)


def _first_forwarded_command(log: PartitionLog, child: int, start: int) -> int | None:
    """Read the child's commands log from offset `start`, and find the first command that this partition has forwarded.
    Return the command's offset in this partition, or None.
    """
    topic = log.topics.commands
    _, end = replace(log, partition=child).bounds("commands", "read_uncommitted")
    for records in readers.read(log.connection, topic, child, start, end, "read_uncommitted"):
        for record in records:
            source = read_forwardedfrom(record.value)
            if source is not None and source[0] == log.partition:
                return source[1]
    return None


def _command_of_keys(log: PartitionLog, keys_partition: int, start: int) -> int | None:
    """Return the offset of the first command of the batch that wrote the key record at offset `start`. None for a
    re-wrapped key, which no command has caused.
    """
    topic = log.topics.keys
    for records in readers.read(log.connection, topic, keys_partition, start, start + 1, "read_uncommitted"):
        return _offset_in_header(records[0], FIRST_COMMAND)
    return None


def _offset_in_header(record: Record | None, header: str) -> int | None:
    """Return the command's offset in a header of a record; None without the record or the header. No batch has caused a
    record without the header, or an older version wrote it.
    """
    offset = None if record is None else dict(record.headers or ()).get(header)
    return None if offset is None else int(offset)


def _command_of_record(kind: Kind, value: bytes | None) -> int:
    """Return the offset of the command that caused an outcome or event."""
    try:
        return read_outcome(value).data.offset if kind == "outcomes" else read_event(value).position()[1]
    except ValueError as error:
        raise CqrsError(f"a record of the {kind} cannot be read: {error}", "cqrs verify") from error
