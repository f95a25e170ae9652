"""The one writer of a partition: a transactional producer that fences the writer before it.

A record that could not be produced means no commit: librdkafka's `commit_transaction` succeeds without it.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli import failpoints
from cqrs_cli.core.context import Decisions, OutputRecord
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, producer
from cqrs_cli.kafka.connection.librdkafka_log import until_sent
from cqrs_cli.kafka.log_ends import LogEnds, OnDelivery
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.write_errors import (
    BatchLateError,
    ReadShortError,
    TopicMadeAgainError,
    aborting,
    refused_batch,
    unwrapped,
)

#: Seconds after which the broker aborts the transaction. It blocks readers until then: so it is short, and begun late.
TRANSACTION_TIMEOUT = 20.0

#: Seconds that producing may take; a batch that needs longer is too large.
PRODUCE_TIMEOUT = TRANSACTION_TIMEOUT / 2

#: Bytes, before compression, of one request to a topic at most.
_REQUEST_BYTES = 1_000_000

#: Bytes of a record without its value, roughly: key, headers, and the fields around them.
_AROUND = 128

#: Seconds to wait for records to arrive before asking the producer if one of them failed.
_PATIENCE = 0.5

_HEADERS: Any = HEADERS  # the stubs want a list of a wider type


class Written(NamedTuple):
    """Lower bounds of the logs' ends after a commit, since reports may come later. None: none came yet."""

    events: int | None
    outcomes: int | None


class FencedWriter:
    """Writes events, outcomes and dead letters of one partition, with the position, in one transaction."""

    def __init__(
        self,
        log: PartitionLog,
        most_bytes: int,
        timeout: float = TRANSACTION_TIMEOUT,
        produce_timeout: float = PRODUCE_TIMEOUT,
    ) -> None:
        """`most_bytes`: the least `max.message.bytes` among the topics, so that no batch of records exceeds it."""
        self._topics, self._partition = log.topics, log.partition
        self._timeout, self._produce_timeout = timeout, produce_timeout
        self._ends = LogEnds()
        self._request_bytes = min(_REQUEST_BYTES, most_bytes)
        self._unsent = 0  # bytes that wait to be sent, of the topic that has more
        self._began: float | None = None
        self._producer = producer(
            log.connection,
            transactional_id=log.topics.transactional_id(log.partition),
            transaction_timeout_ms=int(timeout * 1000),
            linger_ms=1000,  # for ever: flushing sends at once
            batch_size=self._request_bytes,
            message_max_bytes=64 * 1024 * 1024,  # the broker judges what is too large, compressed
            queue_buffering_max_messages=500_000,
            queue_buffering_max_kbytes=256 * 1024,
            retry_backoff_ms=1,  # back-to-back transactions meet CONCURRENT_TRANSACTIONS: 4 ms instead of 100
            retry_backoff_max_ms=5,
            reconnect_backoff_ms=20,
            **({"debug": "protocol"} if failpoints.armed("commit.sent") else {}),
        )

    @property
    def waiting(self) -> float:
        """Seconds since the call to the broker that is under way began; 0 if none is.

        librdkafka's `send_offsets_to_transaction` ignores its timeout when the group's coordinator goes away in the
        middle (confluentinc/librdkafka#5456): a caller that sees this far beyond the timeout must end the process.
        """
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def _wait(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """One call, timed: each has the transaction's timeout to itself."""
        self._began = time.monotonic()
        try:
            return call(*arguments)
        finally:
            self._began = None

    def fence(self) -> None:
        """Fence the previous writer and settle its open transaction; raises `KafkaException`."""
        # `init_transactions` retries only after 500 ms if no broker is connected when it starts. The first answer here
        # replaces the bootstrap connection by the broker's own, the second says that it is up: 17 ms instead of mostly
        # 510.
        for _ in range(2):
            self._wait(self._producer.list_topics, self._topics.events, self._timeout)
        self._wait(self._producer.init_transactions, self._timeout)

    def expect(self, events: int, outcomes: int) -> None:
        """Take the logs' ends as they were read: a commit whose records land elsewhere fails."""
        self._ends.expect({self._topics.events: events, self._topics.outcomes: outcomes})

    @unwrapped()
    def commit_position(self, group: Consumer, offset: int, metadata: str) -> None:
        """Commit a position and what rides with it, and nothing else; raises `KafkaException`."""
        self._producer.begin_transaction()
        self._finish(group, offset, metadata)

    @unwrapped()
    def commit(
        self, pieces: Iterable[Decisions], group: Consumer, position: Callable[[], tuple[int, str]]
    ) -> Written:
        """Write all pieces of a batch and the position, or nothing.

        The transaction begins with the first piece; the pieces are produced as they come, and then `position` gives the
        offset and the metadata. An error that comes out of `pieces` aborts it. Raises `BatchRefusedError` if the batch
        is at fault, `TopicMadeAgainError` and `ReadShortError` if a record did not get its offset, and `KafkaException`
        for anything else. After a lost reply only the next `fence` shows if the commit took place.
        """
        abort = partial(self._wait, self._producer.abort_transaction, self._timeout)
        began = None
        try:
            for piece in aborting(pieces, abort):
                if began is None:
                    self._producer.begin_transaction()
                    self._unsent, began = 0, time.monotonic()
                    self._ends.begin()
                elif time.monotonic() - began > self._timeout / 2:
                    raise BatchLateError("deciding took longer than half the transaction's time")
                self._produce_piece(piece, began + self._produce_timeout)
            failpoints.reached("produce.after")
            self._finish(group, *position())
        except KafkaException as error:
            if (refused := refused_batch(error.args[0])) is not None:
                raise refused from error
            raise
        self._ends.commit()
        return Written(self._ends.known(self._topics.events), self._ends.known(self._topics.outcomes))

    def _finish(self, group: Consumer, offset: int, metadata: str) -> None:
        position = TopicPartition(self._topics.commands, self._partition, offset, metadata)
        try:
            self._send_offset(group, position)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            self._send_offset(group, position)  # a record failed meanwhile: only the next call says how
        failpoints.reached("offsets.after")
        # Others stay queued behind a record that failed: `commit_transaction` would wait for them until it timed out.
        deadline = time.monotonic() + self._timeout
        while left := self._wait(self._producer.flush, _PATIENCE):
            if time.monotonic() > deadline:
                raise BatchLateError(f"{left} records were not written in {self._timeout:g} s")
            self._send_offset(group, position)
        failpoints.reached("flush.after")
        try:
            self._ends.check()
        except (ReadShortError, TopicMadeAgainError):
            self._wait(self._producer.abort_transaction, self._timeout)
            raise
        failpoints.during(
            "commit.sent",
            lambda: self._wait(self._producer.commit_transaction, self._timeout),
            lambda: until_sent(self._producer, "EndTxnRequest", REQUEST_TIMEOUT),
        )
        failpoints.reached("commit.after")

    def _send_offset(self, group: Consumer, position: TopicPartition) -> None:
        send, metadata = self._producer.send_offsets_to_transaction, group.consumer_group_metadata()
        self._wait(send, [position], metadata, self._timeout)

    def _produce_piece(self, piece: Decisions, deadline: float) -> None:
        """Produce in portions of one request per topic, each waiting for the one before.

        While a request is on its way and the next one to the same partition is ready, the thread of librdkafka that
        sends does not sleep but spins (2.16, `rd_kafka_toppar_producer_serve`), and takes the processor from the broker
        that it waits for: a backlog fell from 77,000 to 25,000 commands/s on two cores.
        """
        size = max(
            sum(len(value) + _AROUND for value, _, _ in outputs) for outputs in (piece.events, piece.outcomes)
        )
        portions = 1 + size // self._request_bytes
        for number in range(portions):
            if self._unsent + size // portions > self._request_bytes:
                self._producer.flush(_PATIENCE)  # `_finish` learns of failures
                self._unsent = 0
            self._unsent += size // portions
            self._produce_all(self._topics.events, _portion(piece.events, number, portions), deadline)
            failpoints.reached("produce.first", self._producer.flush)
            self._produce_all(self._topics.outcomes, _portion(piece.outcomes, number, portions), deadline)
        for letter in piece.dead_letters:
            self._produce(self._topics.dead_letters, letter[:3], letter.headers, None, deadline)

    def _produce_all(self, topic: str, outputs: Sequence[OutputRecord], deadline: float) -> None:
        """The hot path: arguments by position, and only the last record reports its offset."""
        if not outputs:
            return
        produce, partition, headers = self._producer.produce, self._partition, _HEADERS
        for number, (value, key, timestamp) in enumerate(outputs[:-1]):
            try:
                produce(topic, value, key, partition, None, None, timestamp, headers)
            except BufferError:
                self._produce(topic, outputs[number], HEADERS, None, deadline)
        self._produce(topic, outputs[-1], HEADERS, self._ends.send(topic, len(outputs)), deadline)

    def _produce(
        self,
        topic: str,
        output: tuple[bytes | None, bytes | None, int],
        headers: Any,
        report: OnDelivery | None,
        deadline: float,
    ) -> None:
        value, key, timestamp = output
        while True:
            try:
                self._producer.produce(topic, value, key, self._partition, report, None, timestamp, headers)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    raise BatchLateError("producing took longer than half the transaction's time") from None
                self._producer.poll(0.05)


def _portion(outputs: Sequence[OutputRecord], number: int, portions: int) -> Sequence[OutputRecord]:
    return outputs[number * len(outputs) // portions : (number + 1) * len(outputs) // portions]
