"""The current transaction of a writer. It begins as late as possible, because an open transaction blocks readers."""

import time
from collections.abc import Callable

from confluent_kafka import TopicPartition


class WriteTransaction:
    """Records and a group's `position` that are committed together. The first record begins the transaction.

    Do slow work before `ensure_begun` is called.
    """

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self.began_at: float | None = None  # monotonic seconds; None before the transaction begins
        self.position: TopicPartition | None = None  # set before the end of the `transaction` block
        self.commits_position = True  # False if a later transaction commits a later position

    def ensure_begun(self) -> float:
        """Begin the transaction unless it has begun; return the time of its beginning. Raises `KafkaException`."""
        if self.began_at is None:
            self._begin()
            self.began_at = time.monotonic()
        return self.began_at
