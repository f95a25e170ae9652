"""A transactional producer that fences the previous producer, and commits a group's position with its records.

If a record could not be produced, librdkafka's `commit_transaction` would commit the other records. So the writer
checks for failed records before it calls `commit_transaction`.
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
from cqrs_cli.kafka.expected_offsets import OnDelivery
from cqrs_cli.kafka.write_errors import (
    BatchLateError,
    TopicRecreatedError,
    UnreadRecordsError,
    raising_batch_errors,
    unwrapping_fatal_errors,
)
from cqrs_cli.kafka.write_transaction import WriteTransaction
from cqrs_cli.observer import reached

#: Seconds after which the broker aborts a transaction. The timeout is short, because an open transaction blocks
#: readers.
TRANSACTION_TIMEOUT = 20.0

#: Timeout in seconds for the coordinator's answer when a position is added or a transaction is committed. It usually
#: takes milliseconds, but the call may never return if the coordinator was lost. The timeout ends before
#: a new coordinator is elected (`broker.session.timeout.ms`, 9 s): a new owner then finds the new coordinator a second
#: or two earlier than the waiting call would.
COORDINATOR_TIMEOUT = 4.0

#: Timeout in seconds of one `flush`, which waits for delivery reports. After the timeout, the writer checks whether a
#: record has failed.
FLUSH_TIMEOUT = 0.5

#: Approximate bytes of a record without its value: key, headers and other fields.
RECORD_OVERHEAD = 128

#: Timeouts in seconds of an `init_transactions` call: of the first call, and the maximum, as each retry doubles it.
_FIRST_FENCE_TIMEOUT, _MAX_FENCE_TIMEOUT = 0.02, 0.1


def transaction_timeout_error(timeout: float, limit_ms: int | None = None) -> ConfigurationError:
    """Return the error for brokers that do not allow a transaction timeout of `timeout` seconds. `limit_ms`: the
    brokers' limit, if known.
    """
    limit = "lower" if limit_ms is None else f"{limit_ms}"
    return ConfigurationError(
        f"the brokers' transaction.max.timeout.ms is {limit}, and cqrs needs transactions of {timeout * 1000:.0f} ms",
        f"set transaction.max.timeout.ms to {timeout * 1000:.0f} or more on each broker, and restart it",
    )


class TransactionalWriter:
    """The base class of the writers of a partition. It fences the previous writer, and commits transactions."""

    def __init__(
        self,
        connection: Cluster,
        transactional_id: str,
        lookup_topic: str,
        request_bytes: int,
        timeout: float,
        partition: int = 0,
    ) -> None:
        """`lookup_topic`: a topic that the writer may describe; the fence requests its metadata. `request_bytes`: the
        maximum bytes of one produce request. `timeout`: seconds, for a transaction and for each call. `partition`: the
        partition to which `_produce` writes by default.
        """
        self._lookup_topic, self._request_bytes, self._timeout = lookup_topic, request_bytes, timeout
        self._partition = partition
        self._queued_bytes = 0  # the size of the records that are queued since the last flush
        #: Monotonic seconds by which the current call should have returned.
        self._call_deadline: float | None = None
        # The last error about an unreachable broker since the previous transaction began, if any.
        self._unreachable_errors: deque[KafkaError] = deque(maxlen=1)
        self._producer = producer(
            connection,
            transactional_id=transactional_id,
            # A method of the writer as a callback would keep the client of a dropped writer alive.
            on_error=self._unreachable_errors.append,
            transaction_timeout_ms=int(timeout * 1000),
            linger_ms=1000,  # the timer sends nothing: `flush` sends the records at once
            batch_size=request_bytes,
            message_max_bytes=64 * 1024 * 1024,  # the broker checks the size, after compression
            queue_buffering_max_messages=500_000,
            queue_buffering_max_kbytes=256 * 1024,
            # A transaction directly after another transaction gets CONCURRENT_TRANSACTIONS, and has to retry: with this
            # backoff it takes 4 ms, with the default backoff 100 ms.
            retry_backoff_ms=1,
            retry_backoff_max_ms=5,
            reconnect_backoff_max_ms=250,  # the default, ten seconds, also delays the connection to a new coordinator
            **({"debug": "protocol"} if failpoints.armed("commit.sent") else {}),
        )

    @property
    def overdue_seconds(self) -> float:
        """Seconds since the current call to the broker should have returned; 0 if no call is overdue.

        librdkafka's `send_offsets_to_transaction` (2.16) ignores its timeout. If the coordinator was lost or is not up
        yet, the call may wait for ever (confluentinc/librdkafka#5456, #5511): in a test, 3 of 14 did. Such a call ends
        only with the process. So an owner reads its group's position before its first transaction: this read also waits
        for the coordinator, but has a timeout. Closing idle connections would prevent the endless wait, too, but then
        the first transaction after idle seconds took 1.7 to 4.7 s.
        """
        deadline = self._call_deadline
        return 0.0 if deadline is None else max(0.0, time.monotonic() - deadline)

    def _call(self, call: Callable[..., Any], *arguments: Any, timeout: float | None = None) -> Any:
        """Call a function of librdkafka, and record for `overdue_seconds` that it should return within `timeout`
        seconds. None: the writer's timeout.
        """
        self._call_deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        try:
            return call(*arguments)
        finally:
            self._call_deadline = None

    def fence(self) -> None:
        """Fence the previous writer and end its open transaction; raises `KafkaException`, and `ConfigurationError` if
        the broker allows no transaction of this timeout.

        While the coordinator ends an open transaction of the previous writer, for some milliseconds, it rejects the
        request. librdkafka would then wait for 500 ms. So this method calls `init_transactions` several times with
        short timeouts: each call asks the coordinator at once, and the fence takes 60 ms instead of 600.
        """
        # `init_transactions` also waits for 500 ms if no broker is connected. The first answer replaces the bootstrap
        # connection by the connection to the broker; the second answer shows that this connection is up.
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
        if timeout > _FIRST_FENCE_TIMEOUT:  # during the retries, the leader may have changed
            self._call(self._producer.list_topics, self._lookup_topic, self._timeout)
        self._producer.poll(0)
        self._unreachable_errors.clear()

    @contextmanager
    def transaction(self, group: Consumer) -> Iterator[WriteTransaction]:
        """Commit the records of the `with` block together with the position that the block sets. `group`: a consumer of
        the group. After an error in the block, nothing is committed.

        Raises `BatchRefusedError` if the batch is at fault, `TopicRecreatedError` and `UnreadRecordsError` if a record
        did not get its expected offset, and `KafkaException` for other errors. If the answer to the commit is lost,
        only the next `fence` shows whether the transaction was committed.
        """
        transaction = WriteTransaction(self._begin)
        with raising_batch_errors(), unwrapping_fatal_errors():
            try:
                yield transaction
            except KafkaException as error:
                # After a failed record, `produce` refuses the next record. Only `_send_offset` raises the error.
                if kafka_error(error).code() == KafkaError._STATE and transaction.began_at is not None:
                    position = TopicPartition(self._lookup_topic, self._partition, 0)
                    self._send_offset(group, transaction.position or position)
                raise  # no abort here, because the broker may not answer: the fence of the next owner aborts
            except Exception:
                # Without the abort, readers would wait until the timeout of the transaction.
                if transaction.began_at is not None:
                    with suppress(KafkaException):
                        self._call(self._producer.abort_transaction, self._timeout)
                raise
            assert transaction.position is not None
            transaction.ensure_begun()
            reached("produce.after")
            self._finish(group, transaction.position, transaction.commits_position)

    def _begin(self) -> None:
        """Begin a transaction. Raises `KafkaException` if a broker was unreachable since the previous transaction
        began.

        Then Kafka may have ended the previous transaction only on some partitions (kafka/admin/hanging.py). For
        example, its records are visible, but its offset is still pending, and an abort of the new transaction would
        also abort this offset. After the error, the next owner resolves the previous transaction.
        """
        self._producer.poll(0)
        if self._unreachable_errors:
            raise KafkaException(self._unreachable_errors.pop())
        self._producer.begin_transaction()
        self._queued_bytes = 0

    def _start_portion(self, size: int) -> None:
        """Wait until the queued records are written, unless `size` more bytes fit into the same request.

        So no request becomes ready while another is in flight. Otherwise librdkafka's sender thread would spin instead
        of sleeping (2.16, `rd_kafka_toppar_producer_serve`). On two cores shared with the broker, this reduced the
        throughput of a backlog from 77,000 to 25,000 commands/s.
        """
        if self._queued_bytes + size > self._request_bytes:
            self._producer.flush(FLUSH_TIMEOUT)  # `_finish` raises the errors of failed records
            self._queued_bytes = 0
        self._queued_bytes += size

    def _produce(
        self,
        topic: str,
        output: tuple[bytes | None, bytes | None, int],
        headers: Any,
        report: OnDelivery | None,
        deadline: float,
        partition: int | None = None,
    ) -> None:
        """Queue one record. `output`: (value, key, timestamp in ms). `report`: callback for the delivery report.
        `partition`: None for the writer's partition.

        Wait while librdkafka's queue is full; raise `BatchLateError` after `deadline` (monotonic seconds).
        """
        value, key, timestamp = output
        number = self._partition if partition is None else partition
        while True:
            try:
                self._producer.produce(topic, value, key, number, report, None, timestamp, headers)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise BatchLateError("producing took longer than half the transaction's time") from None
                self._producer.poll(0.05)

    def _check_offsets(self) -> None:
        """Raise `UnreadRecordsError` or `TopicRecreatedError` if the records must not be committed. Writers that know
        the expected offsets of their records override this method.
        """

    def _are_records_written(self) -> bool:
        """Return True if the delivery reports prove that every record of the transaction was written."""
        return False

    def _finish(self, group: Consumer, position: TopicPartition, commits_position: bool = True) -> None:
        """Add the group's position to the open transaction, and commit the transaction. Raises `KafkaException`.

        Without `commits_position`, the position is left out if the delivery reports prove that all records were
        written. Otherwise it is added after all, because this call raises the error of a failed record.
        """
        if commits_position:
            self._add_position(group, position)
        reached("offsets.after")
        # If a record fails now, later records stay queued, and `commit_transaction` would wait for them until its
        # timeout. `_send_offset` raises the error of the failed record at once.
        deadline = time.monotonic() + self._timeout
        while unsent := self._call(self._producer.flush, FLUSH_TIMEOUT):
            if time.monotonic() > deadline:
                raise BatchLateError(f"{unsent} records were not written within {self._timeout:g} s")
            self._send_offset(group, position)
        reached("flush.after")
        if not commits_position and not self._are_records_written():
            self._add_position(group, position)
        try:
            self._check_offsets()
        except (UnreadRecordsError, TopicRecreatedError):
            self._call(self._producer.abort_transaction, self._timeout)
            raise
        failpoints.act_during(
            "commit.sent",
            lambda: self._call_coordinator(self._producer.commit_transaction),
            lambda: wait_until_sent(self._producer, "EndTxnRequest", REQUEST_TIMEOUT),
        )
        reached("commit.after")

    def _add_position(self, group: Consumer, position: TopicPartition) -> None:
        """Add the group's position to the open transaction. Raises the error of a record that could not be written."""
        try:
            self._send_offset(group, position)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            self._send_offset(group, position)  # a record has failed: only this second call raises its error

    def _send_offset(self, group: Consumer, position: TopicPartition) -> None:
        send, metadata = self._producer.send_offsets_to_transaction, group.consumer_group_metadata()
        self._call_coordinator(send, [position], metadata)

    def _call_coordinator(self, call: Callable[..., Any], *arguments: Any) -> None:
        timeout = min(self._timeout, COORDINATOR_TIMEOUT)
        self._call(call, *arguments, timeout, timeout=timeout)
