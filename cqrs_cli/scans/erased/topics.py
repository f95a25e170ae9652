"""Searches the topics of an aggregate for data of erased aggregates, for `cqrs verify --erased`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from cqrs_cli.codec.ciphertext import PlainFields, kid_of_key_record, kids_of_data, kids_of_document
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.deferral.entry import Deferral, read_deferral
from cqrs_cli.core.messages.event import HEADERS, read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import Kind, Topics
from cqrs_cli.payloads.batch import command_may_have_payload, command_reference
from cqrs_cli.proof.erased import (
    ErasedAggregates,
    plain_in_command,
    plain_in_event,
    surviving_key_text,
)
from cqrs_cli.scans.erased.findings import NEVER, RecordCount, RemainingRecords, TopicFinding

#: Milliseconds until an unreferenced payload is deleted: `payloads gc` first moves it to another folder.
_PAYLOAD_GC_DELAY = 2 * 24 * 3600 * 1000

#: A `max.compaction.lag.ms` above this number counts as unlimited. The broker's default is 2**63 - 1.
_MAX_LAG_LIMIT = 2**53


@dataclass
class TopicSearch:
    """A search of the topics. Call `run`, then read the results: the attributes `erased` to `shared_text_count`."""

    connection: Connection
    topics: Topics
    aggregate: Aggregate
    infos: dict[str, TopicInfo]  # topic name → partitions and settings; only of existing topics
    erased: ErasedAggregates = field(default_factory=ErasedAggregates)
    findings: list[TopicFinding] = field(default_factory=list)
    remaining_records: list[RemainingRecords] = field(default_factory=list)
    #: Erased values that records still contain in plain text. Files are searched for these texts.
    texts: set[str] = field(default_factory=set)
    #: SHA-256 sums of the payloads of commands that were decided before their aggregate was erased.
    payload_sums: set[str] = field(default_factory=set)
    #: The number of erased values that are not searched, because other commands contain the same values.
    shared_text_count: int = 0

    def __post_init__(self) -> None:
        self._codec = self.connection.payload_codec()

    def run(self, report: Callable[[str], None] = lambda text: None) -> None:
        """Find the erased aggregates in the events, then search each topic for their data."""
        report("reading the erasures")
        for _, records in self._read_topic(self.topics.events):
            self.erased.read(records)
        steps = {
            "keys": self._read_keys,
            "events": self._search_events,
            "commands": self._search_commands,
            "dead letters": self._search_dead_letters,
            "deferred": self._search_deferred,
            "outcomes": self._search_outcomes,
        }
        for name, step in steps.items() if self.erased else ():
            report(f"searching the {name}")
            step()

    def _search_events(self) -> None:
        topic = self.topics.events
        for partition, batch in self._read_topic(topic):
            erased_records = [record for record in batch if self.erased.find_by_key(record.key) is not None]
            for records in self._codec.decode_batches(topic, partition, [erased_records]):
                for record in records:
                    try:
                        event = read_event(record.value)
                        plain, kids = plain_in_event(self.aggregate, event), kids_of_data(bytes(event.data))
                    except ValueError:  # `cqrs verify` reports it
                        continue
                    finding = TopicFinding(topic, partition, record.offset, "")
                    self._add_plain(finding, plain, "was written before its field was annotated as personal")
                    self._add_decryptable(
                        finding, self.erased[event.subject].surviving_key(kids, event.aggregateversion)
                    )

    def _add_plain(self, finding: TopicFinding, plain: PlainFields, reason: str) -> None:
        if plain.names:
            self.texts |= plain.texts
            problem = f"has {' and '.join(map(repr, plain.names))} of an erased aggregate in plain text: it {reason}"
            self.findings.append(finding._replace(problem=problem))

    def _add_decryptable(self, finding: TopicFinding, kid: str | None) -> None:
        if kid is not None:
            self.findings.append(finding._replace(problem=f"is encrypted with {surviving_key_text(kid)}"))

    def _search_commands(self) -> None:
        """Collect the personal values in the commands of erased aggregates, as search texts for files.

        Such commands are no violations, because retention deletes them.
        """
        record_count, payload_records = RecordCount(), RecordCount()
        for partition, batch in self._read_topic(self.topics.commands):
            for record in batch:
                aggregate = self.erased.find_by_key(record.key)
                if aggregate is None or not aggregate.last.is_after(partition, record):
                    continue
                if command_may_have_payload(record) and (reference := command_reference(record)) is not None:
                    self.payload_sums.add(reference.sha256)
                    payload_records.count_record(record.timestamp)
                plain = self._plain_in_command(partition, record)
                if plain.names:
                    self.texts |= plain.texts
                    record_count.count_record(record.timestamp)
        self._drop_shared_texts()
        self._add_until_retention("commands", "with the values as sent", record_count)
        self._add_until_retention(
            "commands",
            "whose payloads are in the store, until payloads gc",
            payload_records,
            _PAYLOAD_GC_DELAY,
        )

    def _drop_shared_texts(self) -> None:
        """Remove the search texts that also occur in commands of other aggregates, or in commands after the last
        erasure. Files may contain the values of such commands.
        """
        count_before = len(self.texts)
        for partition, batch in self._read_topic(self.topics.commands) if self.texts else ():
            for record in batch:
                aggregate = self.erased.find_by_key(record.key)
                if aggregate is None or not aggregate.last.is_after(partition, record):
                    self.texts -= self._plain_in_command(partition, record).texts
        self.shared_text_count = count_before - len(self.texts)

    def _plain_in_command(self, partition: int, record: Record) -> PlainFields:
        decoded = self._codec.decode_if_available(self.topics.commands, partition, record)
        return plain_in_command(self.aggregate.commands, decoded)

    def _search_dead_letters(self) -> None:
        record_count = RecordCount()
        for _, batch in self._read_topic(self.topics.dead_letters):
            for record in batch:
                aggregate = self.erased.find_by_key(record.key)
                if aggregate is not None and record.timestamp <= aggregate.last.time:
                    record_count.count_record(record.timestamp)
        self._add_until_retention("dead-letters", "with the records as sent", record_count)

    def _search_deferred(self) -> None:
        """Check the latest record of each entry. Earlier records are no violations, because compaction deletes them."""
        topic, latest, record_count = (
            self.topics.deferred,
            dict[tuple[int, bytes], tuple[Record, Deferral]](),
            RecordCount(),
        )
        for partition, batch in self._read_topic(topic):
            for record in batch:
                key = (partition, record.key or b"")
                if (replaced := latest.pop(key, None)) is not None and self._plain_entry(replaced[1]).names:
                    record_count.count_record(record.timestamp)
                if record.value is not None:
                    try:
                        latest[key] = record, read_deferral(record.key, record.value)
                    except ValueError:  # `cqrs verify` reports it
                        continue
        for (partition, _), (record, entry) in latest.items():
            finding = TopicFinding(topic, partition, record.offset, "")
            self._add_plain(
                finding, self._plain_entry(entry), "was deferred before its field was annotated as personal"
            )
            if (aggregate := self.erased.get(entry.subject)) is not None:
                self._add_decryptable(
                    finding, aggregate.surviving_key(kids_of_document(entry.command), entry.version)
                )
        self._add_until_compaction(
            topic, "with values in plain text, which later records replaced", record_count
        )

    def _plain_entry(self, entry: Deferral) -> PlainFields:
        if entry.subject not in self.erased:
            return PlainFields([], set())
        record = Record(0, 0, entry.subject.encode(), entry.command, [*HEADERS])
        return plain_in_command(self.aggregate.commands, record)

    def _search_outcomes(self) -> None:
        topic, texts = self.topics.outcomes, [text.casefold() for text in self.texts]
        for partition, batch in self._read_topic(topic):
            for record in batch:
                if self.erased.find_by_key(record.key) is None:
                    continue
                try:
                    message = (read_outcome(record.value).data.message or "").casefold()
                except ValueError:  # `cqrs verify` reports it
                    continue
                if any(text in message for text in texts):
                    problem = "has an erased value in its message"
                    self.findings.append(TopicFinding(topic, partition, record.offset, problem))

    def _read_keys(self) -> None:
        """Read the active data keys, and report deleted keys that the topic still has.

        This is the first step after the erasures, because the other steps use the active keys.
        """
        topic, record_count = self.topics.keys, RecordCount()
        for partition, batch in self._read_topic(topic) if topic in self.infos else ():
            for record in batch:
                if (aggregate := self.erased.find_by_key(record.key)) is None:
                    continue
                if aggregate.active_kid in aggregate.erased_kids:
                    record_count.count_record(record.timestamp)
                aggregate.active_kid, aggregate.active_key_position = (
                    kid_of_key_record(record),
                    (partition, record.offset),
                )
        for subject, aggregate in self.erased.items():
            if aggregate.active_kid in aggregate.erased_kids:
                problem = f"is key {aggregate.active_kid} of {subject!r}, which was deleted"
                partition, offset = aggregate.active_key_position
                readable = "whoever has the keyring can decrypt the erased values"
                self.findings.append(TopicFinding(topic, partition, offset, f"{problem}: {readable}"))
        self._add_until_compaction(topic, "of deleted keys, which are not compacted away yet", record_count)

    def _add_until_retention(
        self, kind: Kind, description: str, record_count: RecordCount, extra_ms: int = 0
    ) -> None:
        """Add records that retention will delete. `extra_ms`: further milliseconds until their data are deleted.

        Retention deletes only closed segments, as a whole. So the deadline includes `segment.ms`.
        """
        topic = self.topics.name(kind)
        info = self.infos[topic]
        retention = info.number("retention.ms", NEVER)
        deletion_deadline = (
            NEVER
            if retention < 0
            else record_count.newest_time + retention + info.number("segment.ms", 0) + extra_ms
        )
        self._add_remaining(RemainingRecords(topic, description, record_count.count, deletion_deadline))

    def _add_until_compaction(self, topic: str, description: str, record_count: RecordCount) -> None:
        lag = self.infos[topic].number("max.compaction.lag.ms", 2**63 - 1) if topic in self.infos else 0
        self._add_remaining(
            RemainingRecords(
                topic,
                description,
                record_count.count,
                None if lag > _MAX_LAG_LIMIT else record_count.newest_time + lag,
            )
        )

    def _add_remaining(self, remaining: RemainingRecords) -> None:
        if remaining.record_count:
            self.remaining_records.append(remaining)

    def _read_topic(self, topic: str) -> Iterator[tuple[int, list[Record]]]:
        """Yield all committed records in batches, with their partition."""
        partitions = range(self.infos[topic].partitions)
        for partition, (start, end) in readers.bounds(self.connection, topic, partitions).items():
            for records in readers.read(self.connection, topic, partition, start, end):
                yield partition, records
