"""Find all messages of a correlation or a command, in all topics of several aggregates, since a given time."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import NamedTuple

from cqrs_cli.client.queries.messages import LinkedMessage, message_reader
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import KINDS, Kind, Topics
from cqrs_cli.keys.event_decryptor import EventDecryptor
from cqrs_cli.payloads.download import look_up

#: Partitions that are read concurrently.
READERS = 8

#: The maximal number of passes over the topics. The first pass finds the correlation of a command, the second pass
#: finds all messages with this correlation.
ROUNDS = 3

#: The maximal number of an aggregate's correlations to follow. With more, only the aggregate's own messages are shown.
FOLLOWED = 50


class TraceResult(NamedTuple):
    """The messages that were found, the aggregates that were searched or missing, and the number of records read.

    `of_aggregate`: no command and no correlation has the id, so the id was taken as an aggregate id. `unfollowed`: the
    number of the aggregate's correlations if it exceeds `FOLLOWED`, else 0.
    """

    messages: list[LinkedMessage]
    searched: list[str]
    missing: dict[str, ConfigurationError]
    records: int
    of_aggregate: bool = False
    unfollowed: int = 0


def trace_messages(
    connection: Connection,
    topics: Mapping[str, Topics],
    wanted: str,
    since: int,
    progress: Callable[[str], None],
    openers: Mapping[str, EventDecryptor | None] | None = None,
) -> TraceResult:
    """Return all messages since `since` (ms) about a command or correlation, and about their correlations.

    If no command and no correlation has the id `wanted`, return the messages of the aggregates with this id, and of
    their correlations. `openers`: the decryptors of events, by aggregate name. Aggregates without topics are skipped;
    raises `ConfigurationError` if no aggregate has topics.
    """
    parts, missing = _partitions(connection, topics)
    if not parts and missing:
        raise next(iter(missing.values()))
    stretches = _stretches(connection, topics, parts, since)
    ids, found, records, of_aggregate = {wanted}, dict[object, LinkedMessage](), 0, False
    for number in range(ROUNDS):
        progress(f"reading {sum(end - start for *_, start, end in stretches):,} records")
        messages, count = _read(stretches, ids, wanted if number == 0 else None, openers or {})
        records += count
        for message in messages:
            found[message.kind, message.aggregate, message.partition, message.record.offset] = message
        known = {one.correlation for one in found.values() if one.belongs(ids)} - {""}
        if not known and number == 0:
            of_aggregate, ids = True, set()
            known = {one.correlation for one in found.values() if one.subject == wanted} - {""}
            if len(known) > FOLLOWED:
                own = [one for one in found.values() if one.subject == wanted]
                return TraceResult(own, list(parts), missing, records, True, len(known))
        if known <= ids:
            break
        ids |= known
    places = {one.caused_by for one in found.values() if one.belongs(ids)}
    kept = [
        one for one in found.values() if one.belongs(ids) or (one.is_anonymous and one.caused_by in places)
    ]
    return TraceResult(kept, list(parts), missing, records, of_aggregate)


def _partitions(
    connection: Connection, topics: Mapping[str, Topics]
) -> tuple[dict[str, int], dict[str, ConfigurationError]]:
    """Return the partition count of each aggregate, and the error of each aggregate without topics."""
    parts: dict[str, int] = {}
    missing: dict[str, ConfigurationError] = {}
    for name, of_one in topics.items():
        try:
            parts[name] = readers.partition_count(connection, of_one.commands)
        except ConfigurationError as error:
            missing[name] = error
    return parts, missing


_Stretch = tuple[PartitionLog, Kind, int, int]


def _stretches(
    connection: Connection, topics: Mapping[str, Topics], parts: Mapping[str, int], since: int
) -> list[_Stretch]:
    """Return the part of each log since `since`."""

    def of_topic(name: str, kind: Kind) -> list[_Stretch]:
        bounds = readers.bounds(connection, topics[name].name(kind), range(parts[name]))
        found = []
        for partition, (low, end) in bounds.items():
            log = PartitionLog(connection, topics[name], partition, connection.payloads)
            start = log.offset_at(kind, since) if low < end else None
            if start is not None and start < end:
                found.append((log, kind, max(start, low), end))
        return found

    with ThreadPoolExecutor(READERS) as pool:
        kinds = [kind for kind in KINDS if kind != "deferred"]  # its records repeat commands
        each = pool.map(lambda one: of_topic(*one), [(name, kind) for name in parts for kind in kinds])
        return [stretch for found in each for stretch in found]


def _read(
    stretches: Iterable[_Stretch],
    ids: Iterable[str],
    subject: str | None,
    openers: Mapping[str, EventDecryptor | None],
) -> tuple[list[LinkedMessage], int]:
    """Return the messages that may be about `ids` or the aggregate id `subject`, and the number of records read."""
    wanted = set(ids)
    read = message_reader(wanted)
    stopped = Event()

    def of_stretch(stretch: _Stretch) -> tuple[list[LinkedMessage], int]:
        log, kind, start, end = stretch
        found, count, place = [], 0, log.payloads
        for records in log.read(kind, start, end):
            if stopped.is_set():
                break
            count += len(records)
            for record in records:
                message = read(kind, log.topics.aggregate, log.partition, record)
                if message is None:
                    continue
                if message.is_anonymous or message.belongs(wanted) or message.subject == subject:
                    whole, opener = record, openers.get(log.topics.aggregate)
                    if place is not None:
                        (whole,), _ = look_up(place, log.topics.name(kind), [record])
                    if opener is not None and kind == "events":
                        (whole,) = opener.opened(log.partition, [whole])
                    if whole is not record:
                        message = read(kind, log.topics.aggregate, log.partition, whole) or message
                    found.append(message)
        return found, count

    with ThreadPoolExecutor(READERS) as pool:
        try:
            each = list(pool.map(of_stretch, stretches))
        finally:
            stopped.set()  # an error or Ctrl-C stops the other threads, too
            pool.shutdown(cancel_futures=True)
    return [message for found, _ in each for message in found], sum(count for _, count in each)
