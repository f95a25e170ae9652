"""The payloads of a batch's commands: fetched before the batch is decided, as many as memory should hold."""

from typing import NamedTuple

from cqrs_cli.core.context import Payloads
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.payload_reference import MARK, PayloadReference
from cqrs_cli.core.messages.reasons import Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.payloads.place import PayloadPlace, payload_folder
from cqrs_cli.payloads.transfer import payload_transfer

#: The most payloads of one batch, and the most bytes of them. The first one is fetched whatever its size.
MOST_PAYLOADS = 500
MOST_PAYLOAD_BYTES = 64 * 1024 * 1024


class FetchedBatch(NamedTuple):
    """The records of a batch, and the payloads that they refer to, or why they cannot be had."""

    records: list[Record]
    payloads: Payloads


def fetch_payloads(place: PayloadPlace | None, topic: str, records: list[Record]) -> FetchedBatch:
    """The records that may be decided at once, with the payloads that they refer to. Without a store: all, and none."""
    if place is None or not any(map(_may_refer, records)):
        return FetchedBatch(records, {})
    wanted: dict[PayloadReference, None] = {}
    total = 0
    for number, record in enumerate(records):
        reference = command_reference(record) if _may_refer(record) else None
        if reference is None or reference in wanted:
            continue
        total += reference.size
        if wanted and (total > MOST_PAYLOAD_BYTES or len(wanted) == MOST_PAYLOADS):
            records = records[:number]
            break
        wanted[reference] = None
    return FetchedBatch(records, payload_transfer(place).fetch(payload_folder(topic), wanted))


def _may_refer(record: Record) -> bool:
    """A cheap test: in binary mode a record that refers has no value."""
    value = record.value
    return not value or MARK in value


def command_reference(record: Record) -> PayloadReference | None:
    """The payload that a command's data are; None for data in the record, and for what is not a command."""
    try:
        return read_command(record).reference()
    except Refused:
        return None
