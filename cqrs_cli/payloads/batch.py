"""Downloads the payloads of a batch of commands before the batch is decided, within the limits of memory."""

from collections.abc import Iterable
from typing import NamedTuple

from cqrs_cli.core.context import Payloads
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.payload_reference import REFERENCE_MARKER, PayloadReference, payload_folder
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.messages.record import Record
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.transfer import payload_transfer


class PayloadLimits(NamedTuple):
    """The maximal number and the maximal bytes of the payloads of one batch. A single payload may have more bytes."""

    payloads: int = 500
    bytes: int = 64 * 1024 * 1024


BATCH_LIMITS = PayloadLimits()


class FetchedBatch(NamedTuple):
    """The records of a batch, and its payloads by reference: the bytes, or the reason why a payload is unavailable."""

    records: list[Record]
    payloads: Payloads


class FittingPayloads(NamedTuple):
    """The number of records whose payloads fit into the limits, and the references to these payloads, in order."""

    record_count: int
    references: dict[PayloadReference, None]


def fetch_payloads(
    store: PayloadStoreAddress | None, topic: str, records: list[Record], limits: PayloadLimits = BATCH_LIMITS
) -> FetchedBatch:
    """Return the first records whose payloads fit into the limits together, and these payloads.

    Return all records, without payloads, if there is no store, or if no record can refer to a payload.
    """
    if store is None or not any(map(command_may_have_payload, records)):
        return FetchedBatch(records, {})
    references = (
        command_reference(record) if command_may_have_payload(record) else None for record in records
    )
    count, fitting = payloads_within(references, limits)
    payloads = payload_transfer(store).fetch(payload_folder(topic), fitting)
    return FetchedBatch(records if count == len(records) else records[:count], payloads)


def payloads_within(
    references: Iterable[PayloadReference | None],
    limits: PayloadLimits = BATCH_LIMITS,
    count_repeats: bool = False,
) -> FittingPayloads:
    """Return the number of records whose payloads fit into the limits, and these payloads. `references`: the reference
    of each record, or None. `count_repeats`: count a payload once for each record that refers to it.
    """
    fitting: dict[PayloadReference, None] = {}
    total_bytes = number = 0
    for number, reference in enumerate(references, 1):
        if reference is None or (reference in fitting and not count_repeats):
            continue
        total_bytes += reference.size
        if fitting and (total_bytes > limits.bytes or len(fitting) == limits.payloads):
            return FittingPayloads(number - 1, fitting)
        fitting[reference] = None
    return FittingPayloads(number, fitting)


def command_may_have_payload(record: Record) -> bool:
    """True if a command may refer to a payload. The test is cheap: it parses nothing."""
    return may_have_payload(record.value)


def may_have_payload(value: bytes | None) -> bool:
    """True if a record may refer to a payload. In binary mode a command with a reference has no value."""
    return not value or REFERENCE_MARKER in value


def command_reference(record: Record) -> PayloadReference | None:
    """Return a command's reference to a payload; None if the record contains its data, or is not a valid command."""
    try:
        return read_command(record).reference()
    except CheckFailed:
        return None
