"""The payloads of a batch are fetched together before it is decided. A batch without references makes no request."""

import json

import pytest

from cqrs_cli.core.messages.payload_reference import PayloadReference, reference_to, with_reference
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.batch import PayloadLimits, fetch_payloads
from tests.core.tally import command, record
from tests.payloads.stores import FolderStore

TOPIC, FOLDER = "dev.tally.commands", "dev.tally"


def command_with_reference(offset: int, reference: PayloadReference) -> Record:
    return record(offset, with_reference(command(id=str(offset)), FOLDER, reference))


def test_batch_without_references_makes_no_request() -> None:
    """A request to this store would raise."""
    batch = [record(offset, command(id=str(offset))) for offset in range(3)]
    fetched = fetch_payloads(PayloadStoreAddress("carrier-pigeon://loft"), TOPIC, batch)
    assert fetched.records is batch and fetched.payloads == {}


def test_batch_is_fetched_together(store: FolderStore) -> None:
    good_reference, lost_reference = store.put(b"good", FOLDER), reference_to(b"lost")
    attributes = {**json.loads(command()), **good_reference.attributes(FOLDER)}
    headers: Headers = [
        (f"ce_{name}", str(value).encode()) for name, value in attributes.items() if name != "data"
    ]
    batch = [
        record(0, command()),
        command_with_reference(1, good_reference),
        command_with_reference(2, lost_reference),
        record(3, None),
        Record(4, 1, b"a", b"", headers),
        record(5, b'{"datasha256":1}'),
    ]
    fetched = fetch_payloads(store.address, TOPIC, batch)
    assert fetched.records == batch
    assert fetched.payloads == {good_reference: b"good", lost_reference: "it is missing"}


@pytest.mark.parametrize(
    ("limits", "remaining_count"), [(PayloadLimits(payloads=2), 2), (PayloadLimits(bytes=2), 1)]
)
def test_batch_ends_at_its_limits(store: FolderStore, limits: PayloadLimits, remaining_count: int) -> None:
    """A payload that is referenced twice counts once, and a single payload of any size is fetched."""
    first, second, third = (store.put(data, FOLDER) for data in (b"1", b"2", b"three"))
    batch = [
        command_with_reference(number, reference)
        for number, reference in enumerate([first, second, first, third, first])
    ]
    fetched = fetch_payloads(store.address, TOPIC, batch, limits)
    assert [record.offset for record in fetched.records] == [0, 1, 2]
    assert set(fetched.payloads) == {first, second}
    next_batch = fetch_payloads(store.address, TOPIC, batch[3:], limits)
    assert (len(next_batch.records), next_batch.payloads[third]) == (remaining_count, b"three")
