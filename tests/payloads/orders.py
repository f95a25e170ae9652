"""Orders with large data, as owners write them."""

from aggregates.order import Placed
from cqrs_cli.core.messages.payload_reference import PayloadReference, data_of_document, with_reference
from cqrs_cli.core.messages.record import Record
from tests.following.processes.process_harness import placed
from tests.payloads.bank import LARGE
from tests.payloads.stores import FolderStore


def large_order(store: FolderStore, prefix: str, number: int) -> tuple[Record, PayloadReference]:
    """Return the first event of an order, with its data in the store, and the reference to the data."""
    whole = placed(number, event=Placed(f"{number}{LARGE}"))
    data = data_of_document(whole.value or b"")
    assert data is not None
    reference = store.put(data, f"{prefix}order")
    value = with_reference(whole.value or b"", f"{prefix}order", reference)
    return Record(whole.offset, whole.timestamp, whole.key, value), reference
