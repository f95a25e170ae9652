"""The payload store as an owner uses it: before it decides a batch, and before it commits one."""

from collections.abc import Mapping

from cqrs_cli.core.messages.payload_reference import PayloadReference, payload_folder
from cqrs_cli.core.messages.record import Record
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.batch import FetchedBatch, fetch_payloads
from cqrs_cli.payloads.transfer import payload_transfer


class PayloadExchange:
    """Without a store nothing becomes a payload, and a command that refers to one fails."""

    def __init__(self, place: PayloadStoreAddress | None, topic: str) -> None:
        self._place, self._topic = place, topic

    def fetch(self, records: list[Record]) -> FetchedBatch:
        """The commands that may be decided at once, with their payloads."""
        return fetch_payloads(self._place, self._topic, records)

    def store(self, payloads: Mapping[PayloadReference, bytes]) -> None:
        """Put the payloads of events into the store; raises `PayloadUnavailableError`, and nothing may be committed."""
        if payloads and self._place is not None:
            payload_transfer(self._place).upload(payload_folder(self._topic), payloads)
