"""Replaces the large data of commands by references, before the commands are sent."""

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


def replace_large_data(
    store: PayloadStoreAddress, topic: str, document: bytes
) -> tuple[bytes, dict[PayloadReference, bytes]]:
    """Return the document to send to `topic`, and its payload to upload if its data are large.

    Raises `UsageError` if the data are larger than owners accept.
    """
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
