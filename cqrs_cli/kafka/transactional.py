"""A transactional producer that fences the previous producer, and commits a group's position with its records.

If a record could not be produced, the transaction is not committed: librdkafka's `commit_transaction` would succeed
without the record.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli import failpoints
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, kafka_error, producer
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.librdkafka_log import wait_until_sent
from cqrs_cli.kafka.write_errors import (
    BatchLateError,
    TopicRecreatedError,
    UnreadRecordsError,
    raising_batch_errors,
    unwrapping_fatal_errors,
)

#: Seconds after which the broker aborts a transaction. An open transaction blocks readers, so this timeout is short,
#: and transactions begin late.
TRANSACTION_TIMEOUT = 20.0

#: Timeout in seconds for a coordinator's answer to a position or a commit; milliseconds are usual. A call whose
#: coordinator was lost may never return, so the timeout ends before a new coordinator is elected
#: (`broker.session.timeout.ms`, 9 s). Giving up is faster than waiting: the fence of the next owner asks for the new
#: coordinator ten times a second, and a commit in progress would find it a second or two later than the fence.
COORDINATOR_TIMEOUT = 4.0

#: Seconds to wait for delivery reports before asking the producer whether a record failed.
FLUSH_TIMEOUT = 0.5

#: Timeouts in seconds of an `init_transactions` call: the first timeout, and the longest, as each retry doubles it.
_FIRST_FENCE_TIMEOUT, _MAX_FENCE_TIMEOUT = 0.02, 0.1


class WriteTransaction:
    """Records and a group's `position` that are committed together. The first record begins the transaction.

    An open transaction blocks readers, so slow work comes before `ensure_begun`.
    """

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self.began_at: float | None = None  # monotonic seconds
        self.position: TopicPartition | None = None

    def ensure_begun(self) -> float:
        """Begin the transaction unless it is open; return the time at which it began. Raises `KafkaException`."""
        if self.began_at is None:
            self._begin()
            self.began_at = time.monotonic()
        return self.began_at


def transaction_timeout_error(timeout: float, limit_ms: int | None = None) -> ConfigurationError:
    """Return the error for brokers that allow no transactions of `timeout` seconds. `limit_ms`: the limit, if known."""
    limit = "lower" if limit_ms is None else f"{limit_ms}"
    return ConfigurationError(
        f"the brokers' transaction.max.timeout.ms is {limit}, and cqrs needs transactions of {timeout * 1000:.0f} ms",
        f"set transaction.max.timeout.ms to {timeout * 1000:.0f} or more on each broker, and restart it",
    )


class TransactionalWriter:
    """The common part of all writers of a partition: the fence, and the end of a transaction."""

    def __init__(
        self,
        connection: Cluster,
        transactional_id: str,
        lookup_topic: str,
        request_bytes: int,
        timeout: float,
    ) -> None:
        """`lookup_topic`: a topic that the writer writes to or reads. `request_bytes`: limit for a batch of records."""
        self._lookup_topic, self._request_bytes, self._timeout = lookup_topic, request_bytes, timeout
        self._call_deadline: float | None = None  # time at which the current call should have returned
        # The last error of an unreachable broker.
        self._unreachable_errors: deque[KafkaError] = deque(maxlen=1)
        self._producer = producer(
            connection,
            transactional_id=transactional_id,
            # Not a method of the writer: a reference to the writer would keep the client of a dropped writer alive.
            on_error=self._unreachable_errors.append,
            transaction_timeout_ms=int(timeout * 1000),
            linger_ms=1000,  # the timer sends nothing: `flush` sends the records at once
            batch_size=request_bytes,
            message_max_bytes=64 * 1024 * 1024,  # the broker checks the size, after compression
            queue_buffering_max_messages=500_000,
            queue_buffering_max_kbytes=256 * 1024,
            # A transaction right after another one gets CONCURRENT_TRANSACTIONS: its retries take 4 ms instead of 100.
            retry_backoff_ms=1,
            retry_backoff_max_ms=5,
            reconnect_backoff_max_ms=250,  # by default ten seconds, also before it connects to a new coordinator
            **({"debug": "protocol"} if failpoints.armed("commit.sent") else {}),
        )

    @property
    def overdue_seconds(self) -> float:
        """Seconds since the current call to the broker should have returned; 0 if no call is overdue.

        librdkafka's `send_offsets_to_transaction` (2.16) ignores its timeout, and may wait for ever for a coordinator
        that was lost or is not up yet: 3 of 14 producers did (confluentinc/librdkafka#5456, #5511). So an owner reads
        its group's position before its first transaction: that call waits for the coordinator, with a timeout. A call
        that hangs ends only with the process. Closing idle connections prevented it, too, but then the first
        transaction after idle seconds took 1.7 to 4.7 s.
        """
        deadline = self._call_deadline
        return 0.0 if deadline is None else max(0.0, time.monotonic() - deadline)

    def _call(self, call: Callable[..., Any], *arguments: Any, timeout: float | None = None) -> Any:
        """Make one call and track its deadline: each call has the transaction's timeout, or `timeout` seconds."""
        self._call_deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        try:
            return call(*arguments)
        finally:
            self._call_deadline = None

    def fence(self) -> None:
        """Fence the previous writer and end its open transaction; raises `KafkaException`, and `ConfigurationError` if
        the broker allows no transaction of this timeout.

        librdkafka asks the coordinator, and waits for 500 ms after a rejection. The coordinator rejects the request
        while it ends an open transaction of the previous writer, which takes milliseconds. So this method calls
        librdkafka with short timeouts: each new call asks the coordinator at once, and the fence takes 60 ms instead
        of 600.
        """
        # librdkafka also waits for 500 ms if no broker is connected when it starts. The first answer here replaces the
        # bootstrap connection by the broker's own connection; the second answer shows that this connection is up.
        for _ in range(2):
            self._call(self._producer.list_topics, self._lookup_topic, self._timeout)
        deadline, timeout = time.monotonic() + self._timeout, _FIRST_FENCE_TIMEOUT
        while True:
            try:
                self._call(self._producer.init_transactions, timeout)
                break
            except KafkaException as error:
                if kafka_error(error).code() == KafkaError.INVALID_TRANSACTION_TIMEOUT:
                    raise transaction_timeout_error(self._timeout) from error
                if not kafka_error(error).retriable() or time.monotonic() > deadline:
                    raise
                timeout = min(2 * timeout, _MAX_FENCE_TIMEOUT)
        if timeout > _FIRST_FENCE_TIMEOUT:  # after a retry, topics may have new leaders
            self._call(self._producer.list_topics, self._lookup_topic, self._timeout)
        self._producer.poll(0)
        self._unreachable_errors.clear()

    @contextmanager
    def transaction(self, group: Consumer) -> Iterator[WriteTransaction]:
        """Commit the records of the block and the position that it sets, or nothing. An error in the block aborts.

        Raises `BatchRefusedError` if the batch is at fault, `TopicRecreatedError` and `UnreadRecordsError` if a record
        did not get its expected offset, and `KafkaException` for other errors. After a lost reply only the next `fence`
        shows whether the commit took place.
        """
        transaction = WriteTransaction(self._begin)
        with raising_batch_errors(), unwrapping_fatal_errors():
            try:
                yield transaction
            except KafkaException:
                raise  # the next fence aborts: this broker may not answer
            except Exception:
                if (
                    transaction.began_at is not None
                ):  # without the abort, readers would wait until its timeout
                    with suppress(KafkaException):
                        self._call(self._producer.abort_transaction, self._timeout)
                raise
            assert transaction.position is not None
            transaction.ensure_begun()
            failpoints.reached("produce.after")
            self._finish(group, transaction.position)

    def _begin(self) -> None:
        """Begin a transaction. Raises `KafkaException` if a broker could not be reached since the previous transaction.

        Kafka may have ended the previous transaction on some of its partitions only (kafka/admin/hanging.py): for
        example, its records are visible, but its offset is still pending. An abort of this transaction would abort that
        offset, too. So this method raises the error, and the next owner resolves the previous transaction.
        """
        self._producer.poll(0)
        if self._unreachable_errors:
            raise KafkaException(self._unreachable_errors.pop())
        self._producer.begin_transaction()

    def _check_offsets(self) -> None:
        """Raise `UnreadRecordsError` or `TopicRecreatedError` if the written records must not be committed."""

    def _finish(self, group: Consumer, position: TopicPartition) -> None:
        """Add the group's position to the open transaction, and commit it. Raises `KafkaException`."""
        try:
            self._send_offset(group, position)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            self._send_offset(group, position)  # a record has failed: only this second call raises its error
        failpoints.reached("offsets.after")
        # Other records stay queued after a failed record: `commit_transaction` would wait for them until its timeout.
        deadline = time.monotonic() + self._timeout
        while unsent := self._call(self._producer.flush, FLUSH_TIMEOUT):
            if time.monotonic() > deadline:
                raise BatchLateError(f"{unsent} records were not written within {self._timeout:g} s")
            self._send_offset(group, position)
        failpoints.reached("flush.after")
        try:
            self._check_offsets()
        except (UnreadRecordsError, TopicRecreatedError):
            self._call(self._producer.abort_transaction, self._timeout)
            raise
        failpoints.during(
            "commit.sent",
            lambda: self._call_coordinator(self._producer.commit_transaction),
            lambda: wait_until_sent(self._producer, "EndTxnRequest", REQUEST_TIMEOUT),
        )
        failpoints.reached("commit.after")

    def _send_offset(self, group: Consumer, position: TopicPartition) -> None:
        send, metadata = self._producer.send_offsets_to_transaction, group.consumer_group_metadata()
        self._call_coordinator(send, [position], metadata)

    def _call_coordinator(self, call: Callable[..., Any], *arguments: Any) -> None:
        timeout = min(self._timeout, COORDINATOR_TIMEOUT)
        self._call(call, *arguments, timeout, timeout=timeout)
