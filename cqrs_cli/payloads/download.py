"""Downloads the payloads of records, so that readers get the records with their data.

Every event needs its data: a reader that skipped an event would compute a wrong state. A command whose payload is lost
keeps its reference, because its outcome reports the loss.
"""

from msgspec.structs import replace

from cqrs_cli.core.messages.payload_reference import (
    ATTRIBUTES,
    REFERENCE_MARKER,
    PayloadReference,
    find_reference,
    payload_folder,
    with_data,
)
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import PayloadUnavailableError
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.batch import (
    BATCH_LIMITS,
    PayloadLimits,
    command_may_have_payload,
    command_reference,
    payloads_within,
)
from cqrs_cli.payloads.transfer import payload_transfer

_HEADERS = {f"ce_{name}" for name in ATTRIBUTES}


def download_events(
    store: PayloadStoreAddress,
    topic: str,
    partition: int,
    records: list[Record],
    limits: PayloadLimits = BATCH_LIMITS,
) -> tuple[list[Record], list[Record]]:
    """Return two lists: the first events with their data, as many as fit into the limits, and the remaining records,
    unchanged.

    The first list ends before the first event whose payload is unavailable. If the list would be empty, raise
    `PayloadUnavailableError`, which names the record.
    """
    if not any(record.value is not None and REFERENCE_MARKER in record.value for record in records):
        return records, []
    references = [_event_reference(record) for record in records]
    results = _with_payloads(store, topic, records, references, limits)
    complete_records: list[Record] = []
    for result in results:
        if isinstance(result, str):
            break
        complete_records.append(result)
    if not complete_records and references[0] is not None:
        raise unavailable_error(
            store, f"{topic}:{partition}@{records[0].offset}", references[0], str(results[0])
        )
    return complete_records, records[len(complete_records) :]


def download_available(
    store: PayloadStoreAddress, topic: str, records: list[Record]
) -> tuple[list[Record], list[Record]]:
    """Return two lists: the first commands or dead letters, as many as fit into memory, with their data if available,
    and the remaining records, unchanged.
    """
    if not any(map(command_may_have_payload, records)):
        return records, []
    references = [
        command_reference(record) if command_may_have_payload(record) else None for record in records
    ]
    results = _with_payloads(store, topic, records, references)
    first_records = [
        result if isinstance(result, Record) else record
        for record, result in zip(records, results, strict=False)
    ]
    return first_records, records[len(first_records) :]


def _with_payloads(
    store: PayloadStoreAddress,
    topic: str,
    records: list[Record],
    references: list[PayloadReference | None],
    limits: PayloadLimits = BATCH_LIMITS,
) -> list[Record | str]:
    """Return the first records with their data, as many as fit into the limits. In place of a record whose payload is
    unavailable, the list contains the reason.
    """
    count, fitting = payloads_within(references, limits, count_repeats=True)
    payloads = payload_transfer(store).fetch(payload_folder(topic), fitting) if fitting else {}
    results: list[Record | str] = []
    for record, reference in zip(records[:count], references, strict=False):
        data = None if reference is None else payloads[reference]
        results.append(_with_payload(record, data) if isinstance(data, bytes) else data or record)
    return results


def _event_reference(record: Record) -> PayloadReference | None:
    try:
        return find_reference(record.value)
    except ValueError:  # the code that reads the event rejects it
        return None


def unavailable_error(
    store: PayloadStoreAddress, location: str, reference: PayloadReference, reason: str
) -> PayloadUnavailableError:
    """Return the error for a record whose payload is unavailable."""
    return PayloadUnavailableError(
        f"{location} refers to payload {reference.sha256}: {reason}",
        f"restore it in {store.uri}; check the store with cqrs doctor",
    )


def _with_payload(record: Record, data: bytes) -> Record:
    """Return the record with the data in place of the reference."""
    if record.value:
        return replace(record, value=with_data(record.value, data))
    headers = [(name, text) for name, text in record.headers or [] if name not in _HEADERS]
    return replace(record, value=data, headers=headers)
