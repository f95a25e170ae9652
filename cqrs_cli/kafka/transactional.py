"""A transactional producer that fences the one before it, and commits a group's position with its records.

A record that could not be produced means no commit: librdkafka's `commit_transaction` succeeds without it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli import failpoints
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, kafka_error, producer
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.librdkafka_log import until_sent
from cqrs_cli.kafka.write_errors import (
    BatchLateError,
    ReadShortError,
    TopicMadeAgainError,
    refusing,
    unwrapped,
)

#: Seconds after which the broker aborts the transaction. It blocks readers until then: so it is short, and begun late.
TRANSACTION_TIMEOUT = 20.0

#: Seconds that a coordinator has for a position or a commit: milliseconds are usual. Where it was lost, the call may be
#: one that never returns, so it is not waited for until another one is elected (`broker.session.timeout.ms`, 9 s). A
#: fence asks for that one ten times a second, a commit that is under way finds it a second or two later.
COORDINATOR_TIMEOUT = 4.0

#: Seconds to wait for records to arrive before asking the producer if one of them failed.
FLUSH_PATIENCE = 0.5

#: Seconds after which a fence that has not been granted is asked for again, the first time and at most.
_ASK_AGAIN, _ASK_AGAIN_AT_LAST = 0.02, 0.1


class WriteTransaction:
    """Records that are written together, and the group's position `at`. It begins with the first record.

    A transaction that is open blocks readers, so whatever takes long comes before `begin`.
    """

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self.began: float | None = None  # monotonic seconds
        self.at: TopicPartition | None = None

    def begin(self) -> float:
        """Begin it, unless that is done: since when it is open. Raises `KafkaException`."""
        if self.began is None:
            self._begin()
            self.began = time.monotonic()
        return self.began


class TransactionalWriter:
    """The part that the writers of a partition share: the fence, and the end of a transaction."""

    def __init__(
        self, connection: Cluster, transactional_id: str, home: str, request_bytes: int, timeout: float
    ) -> None:
        """`home`: a topic that it writes to or reads. `request_bytes`: of a batch of records at most."""
        self._home, self._request_bytes, self._timeout = home, request_bytes, timeout
        self._due: float | None = None  # when the call under way is to have returned
        self._lost: deque[KafkaError] = deque(maxlen=1)  # the last broker that could not be reached
        self._producer = producer(
            connection,
            transactional_id=transactional_id,
            on_error=self._lost.append,  # which holds no writer: a writer that is dropped drops its client
            transaction_timeout_ms=int(timeout * 1000),
            linger_ms=1000,  # for ever: flushing sends at once
            batch_size=request_bytes,
            message_max_bytes=64 * 1024 * 1024,  # the broker judges what is too large, compressed
            queue_buffering_max_messages=500_000,
            queue_buffering_max_kbytes=256 * 1024,
            retry_backoff_ms=1,  # back-to-back transactions meet CONCURRENT_TRANSACTIONS: 4 ms instead of 100
            retry_backoff_max_ms=5,
            reconnect_backoff_max_ms=250,  # also to a coordinator that was elected: else up to ten seconds
            **({"debug": "protocol"} if failpoints.armed("commit.sent") else {}),
        )

    @property
    def overdue(self) -> float:
        """Seconds since the call to the broker that is under way should have returned; 0 if none is.

        librdkafka's `send_offsets_to_transaction` (2.16) ignores its timeout, and may wait for ever for a coordinator
        that was lost or is not up yet: 3 of 14 producers did (confluentinc/librdkafka#5456, #5511). So an owner reads
        its group's position before it writes the first one. Only the end of the process helps: where idle connections
        were closed, it did not happen, but the first transaction after idle seconds took some.
        """
        due = self._due
        return 0.0 if due is None else max(0.0, time.monotonic() - due)

    def _wait(self, call: Callable[..., Any], *arguments: Any, within: float | None = None) -> Any:
        """One call, timed: each has the transaction's timeout to itself, or less."""
        self._due = time.monotonic() + (self._timeout if within is None else within)
        try:
            return call(*arguments)
        finally:
            self._due = None

    def fence(self) -> None:
        """Fence the previous writer and settle its open transaction; raises `KafkaException`.

        librdkafka asks the coordinator, and after a refusal it waits for 500 ms. It is refused wherever the previous
        writer has a transaction open, which takes milliseconds to end. To call it again lets it ask at once: 60 ms
        instead of 600.
        """
        # It does so, too, if no broker is connected when it starts. The first answer here replaces the bootstrap
        # connection by the broker's own, the second says that it is up.
        for _ in range(2):
            self._wait(self._producer.list_topics, self._home, self._timeout)
        deadline, patience = time.monotonic() + self._timeout, _ASK_AGAIN
        while True:
            try:
                self._wait(self._producer.init_transactions, patience)
                break
            except KafkaException as error:
                if not kafka_error(error).retriable() or time.monotonic() > deadline:
                    raise
                patience = min(2 * patience, _ASK_AGAIN_AT_LAST)
        if patience > _ASK_AGAIN:  # its topics may have got other leaders meanwhile
            self._wait(self._producer.list_topics, self._home, self._timeout)
        self._producer.poll(0)
        self._lost.clear()

    @contextmanager
    def transaction(self, group: Consumer) -> Iterator[WriteTransaction]:
        """Commit what the block writes with the position that it sets, or nothing of it. An error in the block aborts.

        Raises `BatchRefusedError` if the batch is at fault, `TopicMadeAgainError` and `ReadShortError` if a record did
        not get its offset, and `KafkaException` for anything else. After a lost reply only the next `fence` shows if
        the commit took place.
        """
        transaction = WriteTransaction(self._begin)
        with refusing(), unwrapped():
            try:
                yield transaction
            except KafkaException:
                raise  # the next fence aborts: this broker may not answer
            except Exception:
                if transaction.began is not None:  # else readers would wait until its time is up
                    with suppress(KafkaException):
                        self._wait(self._producer.abort_transaction, self._timeout)
                raise
            assert transaction.at is not None
            transaction.begin()
            failpoints.reached("produce.after")
            self._finish(group, transaction.at)

    def _begin(self) -> None:
        """Begin a transaction. Raises `KafkaException` if a broker could not be reached since the one before.

        Kafka may have ended that one on some of its partitions only (kafka/admin/hanging.py). If this one were aborted,
        the rest of that one would go with it: its offset, say, while its records are visible. The next owner looks.
        """
        self._producer.poll(0)
        if self._lost:
            raise KafkaException(self._lost.pop())
        self._producer.begin_transaction()

    def _check(self) -> None:
        """Raise `ReadShortError` or `TopicMadeAgainError` if what was written may not be committed."""

    def _finish(self, group: Consumer, position: TopicPartition) -> None:
        """Make the group's position part of the open transaction, and commit it. Raises `KafkaException`."""
        try:
            self._send_offset(group, position)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            self._send_offset(group, position)  # a record failed meanwhile: only the next call says how
        failpoints.reached("offsets.after")
        # Others stay queued behind a record that failed: `commit_transaction` would wait for them until it timed out.
        deadline = time.monotonic() + self._timeout
        while left := self._wait(self._producer.flush, FLUSH_PATIENCE):
            if time.monotonic() > deadline:
                raise BatchLateError(f"{left} records were not written in {self._timeout:g} s")
            self._send_offset(group, position)
        failpoints.reached("flush.after")
        try:
            self._check()
        except (ReadShortError, TopicMadeAgainError):
            self._wait(self._producer.abort_transaction, self._timeout)
            raise
        failpoints.during(
            "commit.sent",
            lambda: self._wait_for_coordinator(self._producer.commit_transaction),
            lambda: until_sent(self._producer, "EndTxnRequest", REQUEST_TIMEOUT),
        )
        failpoints.reached("commit.after")

    def _send_offset(self, group: Consumer, position: TopicPartition) -> None:
        send, metadata = self._producer.send_offsets_to_transaction, group.consumer_group_metadata()
        self._wait_for_coordinator(send, [position], metadata)

    def _wait_for_coordinator(self, call: Callable[..., Any], *arguments: Any) -> None:
        within = min(self._timeout, COORDINATOR_TIMEOUT)
        self._wait(call, *arguments, within, within=within)
