"""The codec of records: readers get the data of large payloads and decrypted fields, writers store large payloads.

Each reader and writer takes one codec. The codec `AS_STORED` leaves records as they are in the topic, at no cost.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import inf

from cqrs_cli.codec.event_decryptor import EventView
from cqrs_cli.core.messages.payload_reference import PayloadReference, payload_folder
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.errors import PayloadUnavailableError
from cqrs_cli.payloads.address import PayloadStoreAddress
from cqrs_cli.payloads.batch import FetchedBatch, fetch_payloads, may_have_payload
from cqrs_cli.payloads.download import download_available, download_events
from cqrs_cli.payloads.transfer import payload_transfer
from cqrs_cli.payloads.upload import replace_large_data

_EVENTS = ".events"
_WITH_PAYLOADS = (_EVENTS, ".commands", ".dead-letters")


class RecordCodec:
    """Encodes and decodes the records of an aggregate's topics. Thread-safe.

    Every event needs its data: a reader that skipped an event would compute a wrong state. A command whose payload is
    lost keeps its reference, because its outcome reports the loss. The records of other topics are unchanged.

    `payloads`: the payload store; if None, events keep their references. `view`: decrypts or redacts the personal
    fields of events; if None, events keep their encrypted values.
    """

    def __init__(self, payloads: PayloadStoreAddress | None, view: EventView | None = None) -> None:
        self._payloads, self._view = payloads, view

    @property
    def is_identity(self) -> bool:
        """True if the codec leaves all records unchanged."""
        return self._payloads is None and self._view is None

    def may_change(self, topic: str, value: bytes | None) -> bool:
        """False if `decode` certainly leaves a record with this value unchanged: a cheap test."""
        if self._payloads is not None and topic.endswith(_WITH_PAYLOADS) and may_have_payload(value):
            return True
        return self._view is not None and topic.endswith(_EVENTS) and self._view.may_change(value)

    def decode(self, topic: str, partition: int, records: list[Record]) -> tuple[list[Record], list[Record]]:
        """Return two lists: the first records, decoded, as many as fit into memory, and the remaining records,
        unchanged.

        The first list ends before an event whose payload is unavailable; if this event is the first record, raise
        `PayloadUnavailableError`. Raises `ContradictionError` for an event that cannot be decrypted with its own key,
        and the errors of reading the keys.
        """
        remaining_records: list[Record] = []
        if self._payloads is not None and topic.endswith(_WITH_PAYLOADS):
            records, remaining_records = (
                download_events(self._payloads, topic, partition, records)
                if topic.endswith(_EVENTS)
                else download_available(self._payloads, topic, records)
            )
        if self._view is not None and topic.endswith(_EVENTS):
            records = self._view.view_events(partition, records)
        return records, remaining_records

    def decode_batches(
        self, topic: str, partition: int, batches: Iterable[list[Record]]
    ) -> Iterator[list[Record]]:
        """Yield the decoded records of consecutive batches, in smaller batches if their data are large."""
        if self.is_identity:
            yield from batches
            return
        for records in batches:
            remaining_records = records
            while remaining_records:
                decoded, remaining_records = self.decode(topic, partition, remaining_records)
                yield decoded

    def decode_if_available(self, topic: str, partition: int, record: Record) -> Record:
        """Return the record decoded, for display. An event without its payload keeps its reference, as commands do."""
        try:
            return self.decode(topic, partition, [record])[0][0]
        except PayloadUnavailableError:
            return record

    @property
    def payload_threshold(self) -> float:
        """Data above this size in bytes go to the payload store. Infinite without a store."""
        return inf if self._payloads is None else self._payloads.threshold

    def fetch_payloads(self, topic: str, commands: list[Record]) -> FetchedBatch:
        """For an owner, return the first commands whose payloads fit into memory together, and these payloads."""
        return fetch_payloads(self._payloads, topic, commands)

    def replace_large_data(
        self, topic: str, command: bytes
    ) -> tuple[bytes, Mapping[PayloadReference, bytes]]:
        """Return a command to send to `topic`, and the payload to upload before it is sent, if its data are large.

        Raises `UsageError` if the data are larger than owners accept.
        """
        if self._payloads is None or len(command) <= self._payloads.threshold:
            return command, {}
        return replace_large_data(self._payloads, topic, command)

    def upload(self, topic: str, payloads: Mapping[PayloadReference, bytes]) -> None:
        """Upload payloads; raises `PayloadUnavailableError`, and then no record that refers to them may be written."""
        if payloads and self._payloads is not None:
            payload_transfer(self._payloads).upload(payload_folder(topic), payloads)

    def current_key(self, partition: int, subject: str) -> DataKey | None:
        """Return the current data key of an aggregate; None if it has no key, or the codec decrypts nothing."""
        return None if self._view is None else self._view.current_key(partition, subject)

    def current_key_id(self, partition: int, subject: str) -> str | None:
        """Return the id of the current data key of an aggregate; None if it has no key. Needs no keyring."""
        return None if self._view is None else self._view.current_key_id(partition, subject)

    def check_no_lost_keys(self) -> None:
        """Raise `ContradictionError` if a data key was needed and is lost. Call it at the end of a read."""
        if self._view is not None:
            self._view.check_no_lost_keys()

    def close(self) -> None:
        """Drop the data keys, and close their log. Idempotent."""
        if self._view is not None:
            self._view.close()


#: The codec of readers that get records as they are in the topic.
AS_STORED = RecordCodec(None)
