"""Orders with large data, as owners write them."""

from aggregates.order import Placed
from cqrs_cli.core.messages.payload_reference import PayloadReference, data_of_document, with_reference
from cqrs_cli.core.messages.record import Record
from tests.following.processes.process_harness import order_placed
from tests.payloads.bank import LARGE_NAME
from tests.payloads.stores import FolderStore


def large_order(store: FolderStore, prefix: str, number: int) -> tuple[Record, PayloadReference]:
    """Return the first event of an order, with its data in the store, and the reference to the data."""
    record = order_placed(number, event=Placed(f"{number}{LARGE_NAME}"))
    data = data_of_document(record.value or b"")
    assert data is not None
    reference = store.put(data, f"{prefix}order")
    value = with_reference(record.value or b"", f"{prefix}order", reference)
    return Record(record.offset, record.timestamp, record.key, value), reference
