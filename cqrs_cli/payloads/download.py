"""Downloads the payloads of records, so that readers get the records with their data.

Events must have their data: a reader that skipped them would compute a wrong state. The payload of a command may be
lost, as the command's outcome then reports; such a command is shown with its reference.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from cqrs_cli.core.messages.payload_reference import (
    ATTRIBUTES,
    MARK,
    PayloadReference,
    find_reference,
    payload_folder,
    with_data,
)
from cqrs_cli.core.messages.record import Record
from cqrs_cli.payloads.address import PayloadStoreAddress, PayloadUnavailableError
from cqrs_cli.payloads.batch import MOST_AT_ONCE, MostPayloads, command_reference, first_payloads, may_refer
from cqrs_cli.payloads.transfer import payload_transfer

_HEADERS = {f"ce_{name}" for name in ATTRIBUTES}


def checked_out(
    place: PayloadStoreAddress | None,
    topic: str,
    partition: int,
    batches: Iterable[list[Record]],
    most: MostPayloads = MOST_AT_ONCE,
) -> Iterator[list[Record]]:
    """Yield batches of records: events with their data, others unchanged. Raises `PayloadUnavailableError`.

    Without a store all records are unchanged: the code that reads an event rejects an event without its data.
    """
    if place is None or not holds_events(topic):
        yield from batches
        return
    for records in batches:
        rest = records
        while rest:
            whole, rest = check_out(place, topic, partition, rest, most)
            yield whole


def holds_events(topic: str) -> bool:
    """True for an events topic."""
    return topic.endswith(".events")


def check_out(
    place: PayloadStoreAddress,
    topic: str,
    partition: int,
    records: list[Record],
    most: MostPayloads = MOST_AT_ONCE,
) -> tuple[list[Record], list[Record]]:
    """Return the first events with their data, as many as fit into the limits, and the remaining records unchanged.

    An unavailable payload ends the first list before its event. If that is the first event, this function raises
    `PayloadUnavailableError`, which names the record.
    """
    if not any(record.value is not None and MARK in record.value for record in records):
        return records, []
    references = [_event_reference(record) for record in records]
    whole = _with_payloads(place, topic, records, references, most)
    found: list[Record] = []
    for one in whole:
        if isinstance(one, str):
            break
        found.append(one)
    if not found and references[0] is not None:
        raise unavailable(place, f"{topic}:{partition}@{records[0].offset}", references[0], str(whole[0]))
    return found, records[len(found) :]


def look_up(
    place: PayloadStoreAddress, topic: str, records: list[Record]
) -> tuple[list[Record], list[Record]]:
    """Return the first commands or dead letters, with their data if available, and the remaining records unchanged."""
    if not any(map(may_refer, records)):
        return records, []
    references = [command_reference(record) if may_refer(record) else None for record in records]
    whole = _with_payloads(place, topic, records, references)
    found = [one if isinstance(one, Record) else record for record, one in zip(records, whole, strict=False)]
    return found, records[len(found) :]


def _with_payloads(
    place: PayloadStoreAddress,
    topic: str,
    records: list[Record],
    references: list[PayloadReference | None],
    most: MostPayloads = MOST_AT_ONCE,
) -> list[Record | str]:
    """Return the first records with their data, or for an unavailable payload the reason in place of the record."""
    count, wanted = first_payloads(references, most, each_its_own=True)
    payloads = payload_transfer(place).fetch(payload_folder(topic), wanted) if wanted else {}
    whole: list[Record | str] = []
    for record, reference in zip(records[:count], references, strict=False):
        data = None if reference is None else payloads[reference]
        whole.append(_with_payload(record, data) if isinstance(data, bytes) else data or record)
    return whole


def _event_reference(record: Record) -> PayloadReference | None:
    try:
        return find_reference(record.value)
    except ValueError:  # the code that reads the event rejects it
        return None


def unavailable(
    place: PayloadStoreAddress, where: str, reference: PayloadReference, why: str
) -> PayloadUnavailableError:
    """Return the error for a record whose payload is unavailable."""
    return PayloadUnavailableError(
        f"{where} refers to payload {reference.sha256}: {why}",
        f"restore it in {place.uri}; cqrs doctor looks at the store",
    )


def _with_payload(record: Record, data: bytes) -> Record:
    """Return the record with the data in place of the reference."""
    if record.value:
        return replace(record, value=with_data(record.value, data))
    headers = [(name, text) for name, text in record.headers or [] if name not in _HEADERS]
    return replace(record, value=data, headers=headers)
