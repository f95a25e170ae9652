"""The keys topic and the events in memory, with events as owners write them."""

import json
from collections.abc import Iterator

import msgspec

from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import DataKey, ValueLocation
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.keys.topic import key_value
from tests.core.personal.customer import CUSTOMER, Registered

FIRST_KEY, SECOND_KEY = (DataKey.of_random(bytes([byte]) * 72) for byte in (1, 2))
ANN = Registered("Ann Smith", "ann@home", "free")
MASKED_DATA = {"name": "", "mail": "x@invalid", "plan": "free"}


class KeysInMemory:
    """The keys topic as a list of records."""

    topic = "customer.keys"

    def __init__(self, keyring_address: KeyRingAddress) -> None:
        self._keyring = keyring_address.load()
        self.records: list[Record] = []
        self.events = 0
        self.bounds_reads = 0
        self.count, self.polled_partitions = 1, list[int]()
        self.logs: dict[int, list[Record]] = {0: []}  # the events by partition, for readers that read ahead

    def put(self, subject: str, key: DataKey | None) -> None:
        wrapped = None if key is None else self._keyring.wrap(self.topic, subject, key)
        offset = self.records[-1].offset + 1 if self.records else 0
        self.records.append(Record(offset, 0, subject.encode(), key_value(wrapped)))

    def compact(self) -> None:
        """Keep the last record of each subject, unless it is a tombstone."""
        last = {record.key: record for record in self.records}
        self.records = [record for record in last.values() if record.value is not None] + self.records[-1:]
        self.records = sorted(
            {record.offset: record for record in self.records}.values(), key=lambda record: record.offset
        )

    def partition_count(self) -> int:
        return self.count

    def end_of_events(self, partition: int) -> int:
        return self.events

    def bounds(self, partition: int) -> tuple[int, int]:
        self.bounds_reads += 1
        self.polled_partitions.append(partition)
        return 0, self.records[-1].offset + 1 if self.records else 0

    def read(self, partition: int, start: int, end: int) -> Iterator[list[Record]]:
        yield [record for record in self.records if start <= record.offset < end]

    def event_partitions(self) -> int:
        return len(self.logs)

    def events_from(self, partition: int, start: int) -> Iterator[list[Record]]:
        yield [record for record in self.logs[partition] if record.offset >= start]

    def close(self) -> None: ...


def event_record(offset: int, event: Event, key: DataKey | None = None, subject: str = "c-42") -> Record:
    kind, id = CUSTOMER.event_types.get(type(event), ERASED), f"0/{offset}/0"
    data = encode_json(event)
    if key is not None:
        data = encrypt_data(type(event), data, key, ValueLocation("customer", subject, id, ""))
    document = {"id": id, "type": kind, "subject": subject, "data": msgspec.Raw(data)}
    return Record(offset, 0, subject.encode(), encode_json(document))


def event_data(records: list[Record]) -> list[object]:
    return [json.loads(record.value or b"")["data"] for record in records]
