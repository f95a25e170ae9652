"""An owner's use of the payload store: downloads before it decides a batch, uploads before it commits the batch."""

from collections.abc import Mapping

from cqrs_cli.core.messages.payload_reference import PayloadReference, payload_folder
from cqrs_cli.core.messages.record import Record
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.batch import FetchedBatch, fetch_payloads
from cqrs_cli.payloads.transfer import payload_transfer


class OwnerPayloads:
    """The payload store of an owner. Without a store, events keep their data, and a command with a reference fails."""

    def __init__(self, store: PayloadStoreAddress | None, topic: str) -> None:
        self._store, self._topic = store, topic

    def fetch(self, records: list[Record]) -> FetchedBatch:
        """Return the first commands that may be decided together, with their payloads."""
        return fetch_payloads(self._store, self._topic, records)

    def upload(self, payloads: Mapping[PayloadReference, bytes]) -> None:
        """Upload the payloads of events; raises `PayloadUnavailableError`, and then the batch must not be committed."""
        if payloads and self._store is not None:
            payload_transfer(self._store).upload(payload_folder(self._topic), payloads)
