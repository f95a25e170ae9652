"""An owner's use of the payload store: downloads before it decides a batch, uploads before it commits the batch."""

from collections.abc import Mapping

from cqrs_cli.core.messages.payload_reference import PayloadReference, payload_folder
from cqrs_cli.core.messages.record import Record
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.batch import FetchedBatch, fetch_payloads
from cqrs_cli.payloads.transfer import payload_transfer


class PayloadExchange:
    """The payload store of an owner. Without a store, events keep their data, and a command with a reference fails."""

    def __init__(self, place: PayloadStoreAddress | None, topic: str) -> None:
        self._place, self._topic = place, topic

    def fetch(self, records: list[Record]) -> FetchedBatch:
        """Return the first commands that may be decided together, with their payloads."""
        return fetch_payloads(self._place, self._topic, records)

    def store(self, payloads: Mapping[PayloadReference, bytes]) -> None:
        """Upload the payloads of events; raises `PayloadUnavailableError`, and then the batch must not be committed."""
        if payloads and self._place is not None:
            payload_transfer(self._place).upload(payload_folder(self._topic), payloads)
