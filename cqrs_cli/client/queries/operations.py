"""An operator's actions on failed and deferred commands, for the command line and the console."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, NamedTuple

from confluent_kafka import KafkaError
from msgspec.structs import replace

from cqrs_cli.client.envelope import NO_ATTRIBUTION, Attribution, ReadyCommand
from cqrs_cli.client.producer import CommandProducer, send_failure
from cqrs_cli.client.queries.dead_letters import FailedCommand, retry_command
from cqrs_cli.client.queries.deferred import request_commands
from cqrs_cli.client.send import SentCommands, send_all
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.drop_record import DROP_HEADERS, DropRecord, is_drop_record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.acls import drop_acls
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics

#: The type of a request about a deferred command.
RequestType = Literal["cqrs.Release", "cqrs.Cancel"]


class RetryResult(NamedTuple):
    """The commands that a retry sent, and the number of dead letters that are not readable as commands."""

    sent: SentCommands
    unreadable: int


def retry_letters(
    connection: Connection,
    partitioner: Partitioner,
    topics: Topics,
    letters: Iterable[FailedCommand],
    attribution: Attribution = NO_ATTRIBUTION,
) -> RetryResult:
    """Send the commands of these dead letters again, each with its own id, and with this attribution."""
    unreadable = 0

    def commands() -> Iterator[ReadyCommand]:
        nonlocal unreadable
        for letter in letters:
            command = retry_command(topics.aggregate, letter, attribution)
            if command is None:
                unreadable += 1
            else:
                yield command

    sent_commands = _send(connection, partitioner, topics, commands())
    return RetryResult(sent_commands, unreadable)


def drop_letters(
    connection: Connection,
    topics: Topics,
    letters: Iterable[FailedCommand],
    before: int,
    attribution: Attribution = NO_ATTRIBUTION,
) -> int:
    """Delete these dead letters, and return their number. They must be the oldest letters of their partitions
    (`oldest_letters`). `before`: the time (ms) before which letters were selected, for the record of the drop.

    First, a record of the drop is appended to each of these partitions. After a crash before the deletion, both the
    record and the letters exist, and the drop may be repeated.

    Raises `ConfigurationError`, before anything is written, if an ACL is missing.
    """
    ends: dict[int, int] = {}  # partition → offset after its last dropped letter
    drops: dict[int, DropRecord] = {}  # partition → record of the drop
    for letter in letters:
        ends[letter.partition] = letter.offset + 1
        drop = drops.get(letter.partition) or DropRecord(
            actor=attribution.actor,
            before=rfc3339(before),
            letters=0,
            first_command=2**63 - 1,
            last_command=-1,
        )
        drops[letter.partition] = _with_letter(drop, letter)
    if ends:
        with Admin(connection) as admin:
            if missing_acls := admin.missing_acls(drop_acls(topics)):
                raise missing_acls[0].denied_error("dead-letters drop")
            _append_drop_records(connection, topics, ends, drops)
            admin.delete_before(topics.dead_letters, ends)
    return sum(drop.letters for drop in drops.values())


def _with_letter(drop: DropRecord, letter: FailedCommand) -> DropRecord:
    drop, offset_text = replace(drop, letters=drop.letters + 1), letter.command_position.rpartition("@")[2]
    if not (offset_text.isascii() and offset_text.isdigit()):  # a foreign record, which `verify` reports
        return drop
    first, last = min(drop.first_command, int(offset_text)), max(drop.last_command, int(offset_text))
    return replace(drop, first_command=first, last_command=last)


def _append_drop_records(
    connection: Connection, topics: Topics, ends: Mapping[int, int], drops: Mapping[int, DropRecord]
) -> None:
    """Append `drops`, the record of this drop in each partition. Records of earlier drops that this drop will delete
    are appended again, with their timestamps.

    `ends`: partition → the offset before which the drop deletes.
    """
    topic, failures = topics.dead_letters, list[KafkaError]()
    client = clients.producer(connection, delivery_timeout_ms=30_000)

    def append(partition: int, value: bytes | None, timestamp: int) -> None:
        client.produce(
            topic,
            value,
            partition=partition,
            on_delivery=lambda error, _: failures.append(error) if error else None,
            timestamp=timestamp,
            headers=dict(DROP_HEADERS),
        )

    for partition, end in ends.items():
        log = PartitionLog(connection, topics, partition)
        for record in chain.from_iterable(log.read("dead-letters", log.bounds("dead-letters")[0], end)):
            if is_drop_record(record):
                append(partition, record.value, record.timestamp)
        append(partition, drops[partition].encode(), 0)
    client.flush()
    if failures:
        raise send_failure(connection, topic, failures[0])


def send_requests(
    connection: Connection,
    partitioner: Partitioner,
    topics: Topics,
    deferrals: list[Deferral],
    request: RequestType,
    attribution: Attribution = NO_ATTRIBUTION,
) -> SentCommands:
    """Send the owners a command of the type `request` for each of these deferred commands."""
    requests = request_commands(topics.aggregate, deferrals, request, attribution)
    return _send(connection, partitioner, topics, requests)


def _send(
    connection: Connection, partitioner: Partitioner, topics: Topics, commands: Iterable[ReadyCommand]
) -> SentCommands:
    with CommandProducer(connection, partitioner, bulk=True) as producer:
        return send_all(producer, {topics.aggregate: topics}, commands, lambda count: None)
