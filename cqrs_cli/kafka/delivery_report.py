"""The delivery report of one record, from which `kafka.writer` takes the record's offset and timestamp."""

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
)


class DeliveryReport:
    """A callback for the delivery report of one record. It stores the report."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self._offset: int | None = None
        self._timestamp: tuple[int, int] = TIMESTAMP_NOT_AVAILABLE, 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.error, self._offset, self._timestamp = error, message.offset(), message.timestamp()

    def append_time(self) -> int | None:
        """Return the broker's timestamp of the record, ms; None if the topic has the sender's timestamps."""
        timestamp_type, timestamp = self._timestamp
        return timestamp if timestamp_type == TIMESTAMP_LOG_APPEND_TIME else None

    def offset(self) -> int:
        """Return the offset of the record; raises `KafkaException` if the record was not written."""
        if self.error is not None or self._offset is None or self._offset < 0:
            raise KafkaException(self.error or KafkaError(KafkaError._FAIL, "the broker gave no offset"))
        return self._offset
