"""Downloading the payloads of events and commands that are read from the log."""

import json

import pytest

from cqrs_cli.codec.record_codec import AS_STORED, RecordCodec
from cqrs_cli.core.fold import UnreadableEventError, decode_event
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.payload_reference import reference_to, with_reference
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.errors import PayloadUnavailableError
from cqrs_cli.payloads.batch import PayloadLimits
from cqrs_cli.payloads.download import download_available, download_events
from tests.core.tally import AGGREGATE, Add, Partition, command, record
from tests.payloads.stores import FolderStore

TOPIC, FOLDER = "dev.tally.events", "dev.tally"


def event(store: FolderStore, number: int) -> Record:
    """Return an event whose data, `number`, are in the store."""
    partition = Partition()
    partition.decide(record(number, command(id=str(number))))
    ((value, key, timestamp),) = partition.events
    data = b'{"n":%d}' % number
    store.put(data, FOLDER)
    return Record(number, timestamp, key, with_reference(value, FOLDER, reference_to(data)))


def numbers(batches: list[list[Record]]) -> list[list[int]]:
    return [[json.loads(record.value or b"")["data"]["n"] for record in records] for records in batches]


def test_events_are_read_with_their_data(store: FolderStore) -> None:
    events = [event(store, number) for number in (1, 2, 3)]
    (records,) = batches = list(RecordCodec(store.address).decode_batches(TOPIC, 0, [events]))
    assert numbers(batches) == [[1, 2, 3]]
    assert not {"dataref", "datasha256", "datasize"} & json.loads(records[0].value or b"").keys()
    assert [record.offset for record in records] == [1, 2, 3]


def test_batches_are_limited_by_memory(store: FolderStore) -> None:
    """A payload that several records reference is in memory for each record."""
    events = [event(store, number) for number in (1, 1, 1, 2)]
    first, remaining = download_events(store.address, TOPIC, 0, events, PayloadLimits(bytes=15))
    second, none = download_events(store.address, TOPIC, 0, remaining, PayloadLimits(bytes=15))
    assert (numbers([first, second]), none) == ([[1, 1], [1, 2]], [])


def test_lost_event_stops_its_reader(store: FolderStore) -> None:
    events = [event(store, number) for number in (1, 2)]
    store.alter(reference_to(b'{"n":2}'), FOLDER)
    batches = RecordCodec(store.address).decode_batches(TOPIC, 0, [events])
    assert numbers([next(batches)]) == [[1]]  # earlier events are not delayed
    with pytest.raises(PayloadUnavailableError, match=r"dev\.tally\.events:0@2 refers to payload .* altered"):
        next(batches)


def test_reader_without_store_refuses_references(store: FolderStore) -> None:
    ((unread,),) = AS_STORED.decode_batches(TOPIC, 0, [[event(store, 1)]])
    with pytest.raises(UnreadableEventError, match="set payload_store"):
        decode_event(AGGREGATE, read_event(unread.value))


def test_other_topics_are_not_changed(store: FolderStore) -> None:
    records = [record(0, with_reference(command(), FOLDER, store.put(b'{"n":1}', FOLDER)))]
    assert RecordCodec(store.address).decode("dev.tally.outcomes", 0, records) == (records, [])


def binary_command(data: bytes) -> Record:
    attributes = {**json.loads(command()), **reference_to(data).attributes(FOLDER)}
    headers: Headers = [
        (f"ce_{name}", str(value).encode()) for name, value in attributes.items() if name != "data"
    ]
    return Record(2, 1, b"a", b"", headers)


def test_commands_are_read_with_their_data(store: FolderStore) -> None:
    """A command whose payload is lost is shown unchanged, because its outcome reports the loss."""
    stored, lost_reference = store.put(b'{"n":7}', FOLDER), reference_to(b"lost")
    commands = [
        record(0, with_reference(command(), FOLDER, stored)),
        record(1, with_reference(command(), FOLDER, lost_reference)),
        binary_command(b'{"n":7}'),
        record(3, None),
    ]
    decoded, remaining = download_available(store.address, "dev.tally.commands", commands)
    assert remaining == []
    partition = Partition()
    assert partition.verdict(decoded[0])["status"] == "accepted"
    assert AGGREGATE.decode_command["tally.Add"](decoded[2].value or b"") == Add(7)
    assert [name for name, _ in decoded[2].headers or [] if name.startswith("ce_data")] == []
    assert (decoded[1], decoded[3]) == (commands[1], commands[3])
