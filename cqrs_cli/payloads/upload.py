"""Uploads the large data of commands before they are sent. The sent record has a reference in place of the data."""

from cqrs_cli.core.messages.payload_reference import (
    MAX_PAYLOAD,
    PayloadReference,
    data_of_document,
    payload_folder,
    reference_to,
    with_reference,
)
from cqrs_cli.errors import UsageError
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.transfer import payload_transfer


def upload_data(store: PayloadStoreAddress, topic: str, document: bytes) -> bytes:
    """Return the document to send to `topic`. If its data are large, they are in the store when this function returns.

    Raises `PayloadUnavailableError` if the upload fails, `UsageError` if the data are larger than owners accept.
    """
    document, payloads = replace_large_data(store, topic, document)
    if payloads:
        payload_transfer(store).upload(payload_folder(topic), payloads)
    return document


def replace_large_data(
    store: PayloadStoreAddress, topic: str, document: bytes
) -> tuple[bytes, dict[PayloadReference, bytes]]:
    """Return the document to send to `topic`, and its payload to upload if its data are large."""
    try:
        data = data_of_document(document)
    except (ValueError, RecursionError):  # the owner rejects it
        return document, {}
    if data is None or len(data) <= store.threshold:
        return document, {}
    if len(data) > MAX_PAYLOAD:
        raise UsageError(f"a command has {len(data)} bytes of data", f"owners read {MAX_PAYLOAD} at most")
    reference = reference_to(data)
    return with_reference(document, payload_folder(topic), reference), {reference: data}
