"""Finds all messages of a correlation or a command, in all topics of several aggregates, since a given time."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from cqrs_cli.client.queries.message_trees import CommandNode, command_nodes
from cqrs_cli.client.queries.messages import LinkedMessage, drop_of, message_reader
from cqrs_cli.client.queries.scan import LogRange, log_ranges, partition_counts, scan
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind, Topics

#: The maximum number of passes over the topics. The first pass finds the correlation of a command, the second pass
#: finds all messages with this correlation. A third pass is needed only if these messages have further correlations.
MAX_PASSES = 3

#: The maximum number of correlations of an aggregate to follow. If it has more, only its own messages are shown.
MAX_CORRELATIONS = 50


class TraceResult(NamedTuple):
    """The result of a search for an id."""

    messages: list[LinkedMessage]
    searched_aggregates: list[str]
    missing_topic_errors: dict[str, ConfigurationError]  # aggregate without topics → the error
    record_count: int  # number of records that were read
    #: True if no command and no correlation has the id, so that it was taken as an aggregate id.
    is_aggregate_id: bool = False
    #: The number of the aggregate's correlations if they were not followed (`MAX_CORRELATIONS`), else 0.
    skipped_correlations: int = 0


def trace_messages(
    connection: Connection,
    topics: Mapping[str, Topics],
    searched_id: str,
    since: int,
    show_progress: Callable[[str], None],
    codecs: Mapping[str, RecordCodec] | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
) -> TraceResult:
    """Return all messages since `since` (ms) about the command or correlation `searched_id`, and all messages with
    the correlations of these messages.

    If no command and no correlation has this id, return the messages of the aggregates with this id, and all messages
    with the correlations of these messages.

    `topics` and `codecs`: by aggregate name. Without a codec, personal fields stay encrypted. `show_progress` gets a
    text before each pass. `check_cancelled` is called for each batch; it may raise an error to cancel the search.

    Aggregates without topics are skipped. Raises `ConfigurationError` if no aggregate has topics.
    """
    counts, missing_topic_errors = partition_counts(connection, topics)
    ranges = log_ranges(connection, topics, counts, since, codecs or {})
    ids, record_count, is_aggregate_id = {searched_id}, 0, False
    # (kind, aggregate, partition, offset) → message
    messages_by_position: dict[tuple[str, str, int, int], LinkedMessage] = {}
    for pass_number in range(MAX_PASSES):
        show_progress(f"reading {sum(end - start for *_, start, end in ranges):,} records")
        messages, count = _read(ranges, ids, searched_id if pass_number == 0 else None, check_cancelled)
        record_count += count
        for message in messages:
            messages_by_position[
                message.kind, message.aggregate, message.partition, message.record.offset
            ] = message
        correlations = {
            message.correlation for message in messages_by_position.values() if message.concerns(ids)
        } - {""}
        if not correlations and pass_number == 0:
            is_aggregate_id, ids = True, set()
            messages = [
                message for message in messages_by_position.values() if message.subject == searched_id
            ]
            correlations = {message.correlation for message in messages} - {""}
            if len(correlations) > MAX_CORRELATIONS:
                skipped_count = len(correlations)
                return TraceResult(
                    messages, list(counts), missing_topic_errors, record_count, True, skipped_count
                )
        if correlations <= ids:
            break
        ids |= correlations
    positions = {
        message.command_position for message in messages_by_position.values() if message.concerns(ids)
    }
    messages = [
        message
        for message in messages_by_position.values()
        if message.concerns(ids)
        or (message.is_anonymous and message.command_position in positions)
        or (message.kind == "drops" and any(drop_of(message, position) for position in positions))
    ]
    return TraceResult(messages, list(counts), missing_topic_errors, record_count, is_aggregate_id)


def command_nodes_of(
    connection: Connection,
    topics: Topics,
    aggregate_id: str,
    since: int,
    codec: RecordCodec,
    check_cancelled: Callable[[], None],
    redact: Callable[[LinkedMessage], LinkedMessage],
) -> list[CommandNode]:
    """Return the commands to one aggregate since `since` (ms) with their results, the oldest first.

    `redact` is applied to each message. `check_cancelled`: as in `trace_messages`.
    """
    name = topics.aggregate
    counts, _ = partition_counts(connection, {name: topics})
    ranges = log_ranges(connection, {name: topics}, counts, since, {name: codec})
    messages, _ = _read(ranges, {aggregate_id}, aggregate_id, check_cancelled)
    return command_nodes(
        redact(message) for message in messages if message.subject == aggregate_id or message.kind == "drops"
    )


def _read(
    ranges: Iterable[LogRange], ids: Iterable[str], subject: str | None, check_cancelled: Callable[[], None]
) -> tuple[list[LinkedMessage], int]:
    """Return the messages about a command or correlation in `ids`, or about the aggregate id `subject`, and the number
    of records read. Messages that name no id are also returned.
    """
    id_set = set(ids)
    read = message_reader(id_set)

    def select(log: PartitionLog, kind: Kind, records: list[Record]) -> list[LinkedMessage]:
        check_cancelled()
        messages = []
        for record in records:
            message = read(kind, log.topics.aggregate, log.partition, record)
            if message is None:
                continue
            if message.is_anonymous or message.concerns(id_set) or message.subject == subject:
                decoded = log.codec.decode_if_available(log.topics.name(kind), log.partition, record)
                if decoded is not record:
                    message = read(kind, log.topics.aggregate, log.partition, decoded) or message
                messages.append(message)
        return messages

    return scan(ranges, select)
