"""Records whose data are in the payload store, on their way from the log: readers get them with their data.

Events must have theirs: a reader that went on without would be wrong. A command may have lost its payload, and its
outcome says so; it is shown with the reference then.
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
    """The records of a topic, in batches: events with their data. Raises `PayloadUnavailableError`.

    Without a store they come as they are: the code that reads an event refuses one without its data.
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
    """The first events with their data in them, as many as memory should hold, and the others.

    Those before a record whose data cannot be had come first; raises `PayloadUnavailableError` naming it if there are
    none.
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
    """The first commands, or dead letters, with their data where they can be had, and the others."""
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
    """The first records, with their data or why these cannot be had."""
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
    except ValueError:  # the reader judges it
        return None


def unavailable(
    place: PayloadStoreAddress, where: str, reference: PayloadReference, why: str
) -> PayloadUnavailableError:
    """The error for a record whose payload cannot be had."""
    return PayloadUnavailableError(
        f"{where} refers to payload {reference.sha256}: {why}",
        f"restore it in {place.uri}; cqrs doctor looks at the store",
    )


def _with_payload(record: Record, data: bytes) -> Record:
    """The record as it would be with its data in it."""
    if record.value:
        return replace(record, value=with_data(record.value, data))
    headers = [(name, text) for name, text in record.headers or [] if name not in _HEADERS]
    return replace(record, value=data, headers=headers)
