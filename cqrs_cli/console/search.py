"""Searches ids and records of aggregates for a text, and streams the results."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from cqrs_cli.client.queries.messages import LinkedMessage, data_of, message_reader
from cqrs_cli.client.queries.scan import log_ranges, partition_counts, scan
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.console.personal import event_codec, message_view, redacted_member
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import CqrsError
from cqrs_cli.following.gateway.gateway import Gateway
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind

#: Seconds between two reports of the progress.
_PROGRESS_INTERVAL = 0.25


@dataclass(frozen=True)
class Query:
    """A search for a text."""

    text: str
    aggregates: list[str]  # names of the aggregates to search
    since: int  # search records from this time on; ms since 1970
    until: int | None  # search records before this time; ms since 1970
    limit: int  # maximum number of records in the result
    sees_personal: bool  # True if personal values are searched and shown


class _Ended(Exception):
    """Ends the scan: the limit is reached, or the client has disconnected."""


async def search_events(gateway: Gateway, project: ConsoleProject, query: Query) -> AsyncIterator[str]:
    """Yield the results of a search as server-sent events.

    The events are `aggregate` (an id that begins with the text), `record` (a record that contains the text), `progress`
    (the number of records that were read) and, as the last event, `end`.
    """
    yield ": \n\n"
    for name in query.aggregates:
        follower = gateway.followers[name]
        found = await asyncio.to_thread(follower.list_aggregates, query.text, "", query.limit)
        for aggregate_id, state in found:
            yield sse("aggregate", {"aggregate": name, "id": aggregate_id, "version": state.version})
    search = _RecordSearch(project, query, asyncio.get_running_loop())
    async with gateway.read_slots:
        task = asyncio.create_task(asyncio.to_thread(search.run))
        try:
            while (found_event := await search.queue.get()) is not None:
                yield found_event
        finally:
            search.cancelled.set()
            await asyncio.wait([task])
    await task


def sse(event: str, document: object) -> str:
    """Return a server-sent event whose data are a document in JSON."""
    return f"event: {event}\ndata: {msgspec.json.encode(document).decode()}\n\n"


class _RecordSearch:
    """Scans the topics in threads, and puts server-sent events into `queue`. None is the last element of the queue."""

    def __init__(self, project: ConsoleProject, query: Query, loop: asyncio.AbstractEventLoop) -> None:
        self.queue: asyncio.Queue[str | None] = asyncio.Queue()
        self.cancelled = threading.Event()
        self._project, self._query, self._loop = project, query, loop
        self._lock = threading.Lock()
        self._matches, self._read, self._total, self._reported_at = 0, 0, 0, 0.0
        pattern = msgspec.json.encode(query.text)[1:-1]
        self._read_message = message_reader({query.text})
        self._view = message_view(project.aggregates, query.sees_personal)
        self._occurs: Callable[[LinkedMessage], bool] = lambda message: (
            pattern in message.data or any(query.text in text for text in _texts(message))
        )

    def run(self) -> None:
        """Search all topics, then put the event `end` into the queue."""
        is_limited, error_text = False, None
        codecs: dict[str, RecordCodec] = {}
        try:
            self._search(codecs)
        except _Ended:
            is_limited = self._matches >= self._query.limit
        except CqrsError as error:
            error_text = str(error)
        finally:
            for codec in codecs.values():
                codec.close()
            end = {"read": self._read, "total": self._total, "matches": self._matches}
            self._put(sse("end", {**end, "limited": is_limited, "error": error_text}))
            self._put(None)

    def _search(self, codecs: dict[str, RecordCodec]) -> None:
        project, query = self._project, self._query
        for name in query.aggregates:
            codecs[name] = event_codec(project, name, query.sees_personal)
        topics = {name: project.topics(name) for name in query.aggregates}
        counts, _ = partition_counts(project.connection, topics)
        ranges = log_ranges(project.connection, topics, counts, query.since, codecs, query.until)
        self._total = sum(log_range.end - log_range.start for log_range in ranges)
        scan(ranges, self._select)

    def _select(self, log: PartitionLog, kind: Kind, records: list[Record]) -> list[None]:
        for record in records:
            if (message := self._match(log, kind, record)) is not None:
                self._add(message)
        with self._lock:
            self._read += len(records)
            is_due = time.monotonic() - self._reported_at > _PROGRESS_INTERVAL
            if is_due:
                self._reported_at = time.monotonic()
        if is_due:
            self._put(sse("progress", {"read": self._read, "total": self._total}))
        if self.cancelled.is_set():
            raise _Ended
        return []

    def _match(self, log: PartitionLog, kind: Kind, record: Record) -> LinkedMessage | None:
        """Return the message of a record if it contains the text, else None. Hidden personal values do not count."""
        topic = log.topics.name(kind)
        if kind == "events" and log.codec.may_change(topic, record.value):
            record = log.codec.decode_if_available(topic, log.partition, record)
        message = self._read_message(kind, log.topics.aggregate, log.partition, record)
        if message is None:
            return None
        message = self._view(message)
        return message if self._occurs(message) else None

    def _add(self, message: LinkedMessage) -> None:
        with self._lock:
            if self._matches >= self._query.limit:
                raise _Ended
            self._matches += 1
        project, query = self._project, self._query
        names = redacted_member(project.aggregates[message.aggregate], message.type, query.sees_personal)
        self._put(sse("record", {**record_document(message), **names}))

    def _put(self, event: str | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.queue.put_nowait, event)


def _texts(message: LinkedMessage) -> tuple[str, ...]:
    return message.id, message.subject, message.type, message.causation, message.correlation


def record_document(message: LinkedMessage) -> Mapping[str, Any]:
    """Return a found record as JSON."""
    return {
        "aggregate": message.aggregate,
        "kind": message.kind,
        "partition": message.partition,
        "offset": message.record.offset,
        "time": rfc3339(message.record.timestamp),
        "subject": message.subject or None,
        "id": message.id or None,
        "type": message.type or None,
        "causationid": message.causation or None,
        "correlationid": message.correlation or None,
        "data": data_of(message),
    }
