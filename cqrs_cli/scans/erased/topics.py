"""Search the topics of an aggregate for data of erased aggregates."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.deferral.entry import Deferral, read_deferral
from cqrs_cli.core.messages.event import HEADERS, read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import kids_in
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import Kind, Topics
from cqrs_cli.keys.topic import read_key
from cqrs_cli.payloads.batch import command_reference, may_refer
from cqrs_cli.payloads.download import checked_out, look_up
from cqrs_cli.proof.erased import (
    ErasedAggregates,
    PlainFields,
    plain_in_command,
    plain_in_event,
    still_opens,
)
from cqrs_cli.proof.keys import kids_of_document
from cqrs_cli.scans.erased.left import NEVER, ExpiringRecords, RecordCount, TopicFinding

#: Milliseconds until an unreferenced payload is deleted: `payloads gc` first moves it to another folder.
_PAYLOADS = 2 * 24 * 3600 * 1000

#: A `max.compaction.lag.ms` above this number is no limit, such as the broker's default.
_NO_LAG = 2**53


@dataclass
class TopicsLook:
    """A search of the topics: call `look`, then read the results. `texts`: the erased values that are still in records;
    `sums`: the payloads to which erased commands refer.
    """

    connection: Connection
    topics: Topics
    aggregate: Aggregate
    infos: dict[str, TopicInfo]  # of the existing topics
    erased: ErasedAggregates = field(default_factory=ErasedAggregates)
    found: list[TopicFinding] = field(default_factory=list)
    waiting: list[ExpiringRecords] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    sums: set[str] = field(default_factory=set)
    shared: int = 0  # values that living aggregates have too: not searched

    def look(self, note: Callable[[str], None] = lambda text: None) -> None:
        """Find the erased aggregates in the events, then search each topic for their data."""
        note("looking for what was erased")
        for _, records in self._read(self.topics.events):
            self.erased.read(records)
        steps = (self._keys, self._events, self._commands, self._dead_letters, self._deferred, self._outcomes)
        for step in steps if self.erased else ():
            note(f"looking at the {step.__name__.strip('_').replace('_', ' ')}")
            step()

    def _events(self) -> None:
        topic = self.topics.events
        for partition, some in self._read(topic):
            ours = [record for record in some if self.erased.of(record.key) is not None]
            for records in checked_out(self.connection.payloads, topic, partition, [ours]):
                for record in records:
                    try:
                        event = read_event(record.value)
                        plain, kids = plain_in_event(self.aggregate, event), kids_in(bytes(event.data))
                    except ValueError:  # `cqrs verify` reports it
                        continue
                    place = TopicFinding(topic, partition, record.offset, "")
                    self._take(place, plain, "was written before its field was marked")
                    self._take_opened(place, self.erased[event.subject].opens(kids, event.aggregateversion))

    def _take(self, place: TopicFinding, plain: PlainFields, why: str) -> None:
        if plain.names:
            self.texts |= plain.texts
            what = (
                f"has {' and '.join(map(repr, plain.names))} of an erased aggregate in plain text: it {why}"
            )
            self.found.append(place._replace(what=what))

    def _take_opened(self, place: TopicFinding, kid: str | None) -> None:
        if kid is not None:
            self.found.append(place._replace(what=f"is sealed with {still_opens(kid)}"))

    def _commands(self) -> None:
        """Collect the values of erased commands as search texts for files. Retention deletes the commands."""
        counted, apart = RecordCount(), RecordCount()
        for partition, some in self._read(self.topics.commands):
            for record in some:
                one = self.erased.of(record.key)
                if one is None or not one.last.is_behind(partition, record):
                    continue
                if may_refer(record) and (reference := command_reference(record)) is not None:
                    self.sums.add(reference.sha256)
                    apart.add(record.timestamp)
                plain = plain_in_command(self.aggregate.commands, self._with_data(record))
                if plain.names:
                    self.texts |= plain.texts
                    counted.add(record.timestamp)
        self._forget_living()
        self._wait("commands", "with values as they were sent", counted)
        self._wait("commands", "whose payloads are in the store, until payloads gc", apart, _PAYLOADS)

    def _forget_living(self) -> None:
        """Drop the search texts that also occur in commands of other aggregates, or in commands after the last erasure:
        such values may be in files.
        """
        before = len(self.texts)
        for partition, some in self._read(self.topics.commands) if self.texts else ():
            for record in some:
                one = self.erased.of(record.key)
                if one is None or not one.last.is_behind(partition, record):
                    self.texts -= plain_in_command(self.aggregate.commands, self._with_data(record)).texts
        self.shared = before - len(self.texts)

    def _with_data(self, record: Record) -> Record:
        place = self.connection.payloads
        if place is None or not may_refer(record):
            return record
        found, _ = look_up(place, self.topics.commands, [record])
        return found[0]

    def _dead_letters(self) -> None:
        counted = RecordCount()
        for _, some in self._read(self.topics.dead_letters):
            for record in some:
                one = self.erased.of(record.key)
                if one is not None and record.timestamp <= one.last.time:
                    counted.add(record.timestamp)
        self._wait("dead-letters", "byte for byte as they were sent", counted)

    def _deferred(self) -> None:
        """Check the latest record of each entry. Compaction deletes the earlier records."""
        topic, latest, counted = (
            self.topics.deferred,
            dict[tuple[int, bytes], tuple[Record, Deferral]](),
            RecordCount(),
        )
        for partition, some in self._read(topic):
            for record in some:
                key = (partition, record.key or b"")
                if (before := latest.pop(key, None)) is not None and self._plain_entry(before[1]).names:
                    counted.add(record.timestamp)
                if record.value is not None:
                    try:
                        latest[key] = record, read_deferral(record.key, record.value)
                    except ValueError:  # `cqrs verify` reports it
                        continue
        for (partition, _), (record, entry) in latest.items():
            place = TopicFinding(topic, partition, record.offset, "")
            self._take(place, self._plain_entry(entry), "waits as it did before its field was marked")
            if (one := self.erased.get(entry.subject)) is not None:
                self._take_opened(place, one.opens(kids_of_document(entry.command), entry.version))
        self._compacted(topic, "that later ones have followed, with values in plain text", counted)

    def _plain_entry(self, entry: Deferral) -> PlainFields:
        if entry.subject not in self.erased:
            return PlainFields([], set())
        record = Record(0, 0, entry.subject.encode(), entry.command, [*HEADERS])
        return plain_in_command(self.aggregate.commands, record)

    def _outcomes(self) -> None:
        topic, texts = self.topics.outcomes, [text.casefold() for text in self.texts]
        for partition, some in self._read(topic):
            for record in some:
                if self.erased.of(record.key) is None:
                    continue
                try:
                    said = (read_outcome(record.value).data.message or "").casefold()
                except ValueError:  # `cqrs verify` reports it
                    continue
                if any(text in said for text in texts):
                    what = "says an erased value in its message"
                    self.found.append(TopicFinding(topic, partition, record.offset, what))

    def _keys(self) -> None:
        """Read the active data keys. This is the first step, because the other steps use the keys."""
        topic, counted = self.topics.keys, RecordCount()
        for partition, some in self._read(topic) if topic in self.infos else ():
            for record in some:
                if (one := self.erased.of(record.key)) is None:
                    continue
                if one.in_force in one.ended:
                    counted.add(record.timestamp)
                one.in_force, one.place = _read_key(record), (partition, record.offset)
        for subject, one in self.erased.items():
            if one.in_force in one.ended:
                what = f"is key {one.in_force} of {subject!r}, which was ended"
                partition, offset = one.place
                readable = "whoever has the ring can read what was erased"
                self.found.append(TopicFinding(topic, partition, offset, f"{what}: {readable}"))
        self._compacted(topic, "that were ended, and are not compacted away yet", counted)

    def _wait(self, kind: Kind, what: str, counted: RecordCount, more: int = 0) -> None:
        """Add records that retention will delete. It deletes a whole segment, after the segment is closed."""
        topic = self.topics.name(kind)
        info = self.infos[topic]
        retention = info.number("retention.ms", NEVER)
        until = NEVER if retention < 0 else counted.newest + retention + info.number("segment.ms", 0) + more
        self._add(ExpiringRecords(topic, what, counted.count, until))

    def _compacted(self, topic: str, what: str, counted: RecordCount) -> None:
        lag = self.infos[topic].number("max.compaction.lag.ms", 2**63 - 1) if topic in self.infos else 0
        self._add(
            ExpiringRecords(topic, what, counted.count, None if lag > _NO_LAG else counted.newest + lag)
        )

    def _add(self, waiting: ExpiringRecords) -> None:
        if waiting.records:
            self.waiting.append(waiting)

    def _read(self, topic: str) -> Iterator[tuple[int, list[Record]]]:
        """Yield all committed records in batches, with their partition."""
        numbers = range(self.infos[topic].partitions)
        for number, (start, end) in readers.bounds(self.connection, topic, numbers).items():
            for records in readers.read(self.connection, topic, number, start, end):
                yield number, records


def _read_key(record: Record) -> str | None:
    try:
        found = read_key(record.value)
    except ValueError:  # `cqrs verify` reports it
        return None
    return None if found is None else found.kid
