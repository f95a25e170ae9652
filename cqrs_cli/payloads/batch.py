"""The payloads of a batch's commands: fetched before the batch is decided, as many as memory should hold."""

from collections.abc import Iterable
from typing import NamedTuple

from cqrs_cli.core.context import Payloads
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.payload_reference import MARK, PayloadReference, payload_folder
from cqrs_cli.core.messages.reasons import Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.transfer import payload_transfer


class MostPayloads(NamedTuple):
    """The most payloads of one batch, and the most bytes of them. The first one is fetched whatever its size."""

    payloads: int = 500
    bytes: int = 64 * 1024 * 1024


MOST_AT_ONCE = MostPayloads()


class FetchedBatch(NamedTuple):
    """The records of a batch, and the payloads that they refer to, or why they cannot be had."""

    records: list[Record]
    payloads: Payloads


class WantedPayloads(NamedTuple):
    """The payloads of the first records of a batch, as many as memory should hold."""

    records: int
    references: dict[PayloadReference, None]


def fetch_payloads(
    place: PayloadStoreAddress | None, topic: str, records: list[Record], most: MostPayloads = MOST_AT_ONCE
) -> FetchedBatch:
    """The records that may be decided at once, with the payloads that they refer to. Without a store: all, and none."""
    if place is None or not any(map(may_refer, records)):
        return FetchedBatch(records, {})
    references = (command_reference(record) if may_refer(record) else None for record in records)
    count, wanted = first_payloads(references, most)
    payloads = payload_transfer(place).fetch(payload_folder(topic), wanted)
    return FetchedBatch(records if count == len(records) else records[:count], payloads)


def first_payloads(
    references: Iterable[PayloadReference | None],
    most: MostPayloads = MOST_AT_ONCE,
    each_its_own: bool = False,
) -> WantedPayloads:
    """The payloads that may be fetched at once. `each_its_own`: a payload that several records name counts for each."""
    wanted: dict[PayloadReference, None] = {}
    total = number = 0
    for number, reference in enumerate(references, 1):
        if reference is None or (reference in wanted and not each_its_own):
            continue
        total += reference.size
        if wanted and (total > most.bytes or len(wanted) == most.payloads):
            return WantedPayloads(number - 1, wanted)
        wanted[reference] = None
    return WantedPayloads(number, wanted)


def may_refer(record: Record) -> bool:
    """A cheap test of a command: in binary mode a record that refers has no value."""
    value = record.value
    return not value or MARK in value


def command_reference(record: Record) -> PayloadReference | None:
    """The payload that a command's data are; None for data in the record, and for what is not a command."""
    try:
        return read_command(record).reference()
    except Refused:
        return None
