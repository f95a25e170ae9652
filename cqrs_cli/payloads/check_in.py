"""Commands with large data, on their way to the log: the data go to the store, the record refers to them."""

from cqrs_cli.core.messages.payload_reference import (
    MAX_PAYLOAD,
    PayloadReference,
    data_within,
    payload_folder,
    refer,
    with_reference,
)
from cqrs_cli.errors import UsageError
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.transfer import payload_transfer


def checked_in(place: PayloadStoreAddress, topic: str, document: bytes) -> bytes:
    """The document as it is to be sent to `topic`: if its data are large, they are in the store when this returns.

    Raises `PayloadUnavailableError` if they did not get there, `UsageError` if no owner would read that much.
    """
    document, payloads = referring(place, topic, document)
    if payloads:
        payload_transfer(place).upload(payload_folder(topic), payloads)
    return document


def referring(
    place: PayloadStoreAddress, topic: str, document: bytes
) -> tuple[bytes, dict[PayloadReference, bytes]]:
    """The document as it is to be sent to `topic`, and the payload that it refers to then, if its data are large."""
    try:
        data = data_within(document)
    except (ValueError, RecursionError):  # the owner judges it
        return document, {}
    if data is None or len(data) <= place.threshold:
        return document, {}
    if len(data) > MAX_PAYLOAD:
        raise UsageError(f"a command has {len(data)} bytes of data", f"owners read {MAX_PAYLOAD} at most")
    reference = refer(data)
    return with_reference(document, payload_folder(topic), reference), {reference: data}
