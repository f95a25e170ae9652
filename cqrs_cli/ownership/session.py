"""The Kafka clients of one owner of one partition, and the claim that rides with each of its commits."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Self, TypeVar

from confluent_kafka import Consumer, KafkaException
from msgspec.structs import replace

from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, bulk_consumer, consumer, is_in_sync
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.offsets import Committed, committed
from cqrs_cli.kafka.readers import watermarks
from cqrs_cli.kafka.transactional import COORDINATOR_TIMEOUT, TransactionalWriter
from cqrs_cli.ownership.claim import Claim, Judgement, believable, judge, parse_claim
from cqrs_cli.ownership.signals import ClaimLost, Superseded
from cqrs_cli.ownership.standing import Seat
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.ownership.trials.gate import GATE

_W = TypeVar("_W", bound=TransactionalWriter)


class Session(ABC, Generic[_W]):
    """It belongs to one owner and closes with it; the next owner begins with new clients. Use as a context manager."""

    def __init__(
        self, connection: Cluster, seat: Seat, writer: _W, mine: Claim, timing: Timing, batch_limit: int
    ) -> None:
        """`batch_limit`: records that may be committed at once."""
        self.mine, self.timing, self.batch_limit = mine, timing, batch_limit
        self.offset: int | None = None  # the group's, as last read or committed
        self.claimed = False  # whether a commit carries the claim
        self.recovered = False  # whether only the loop is left to do
        self.useful = False  # whether a batch has been committed
        self.seat, self.writer = seat, writer
        self.consumer: Consumer = bulk_consumer(
            connection, group=seat.group, fetch_wait_max_ms=500, fetch_min_bytes=1
        )
        self.watcher: Consumer = consumer(connection, group=seat.group, isolation="read_uncommitted")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()
        self.watcher.close()

    def connect(self) -> None:
        """Connect the clients, so that nobody waits for that behind the fence; raises `KafkaException`.

        The one that reads learns of its topic: else it finds the partition's leader a second after it has begun.
        """
        self.consumer.list_topics(self.seat.topic, timeout=self.timing.transaction_timeout)
        watermarks(self.watcher, self.seat.topic, self.seat.partition)  # its leader may have been lost

    def committed_by(self, client: Consumer, timeout: float = REQUEST_TIMEOUT) -> Committed:
        """The group's offset and what rides with it. A read_committed client waits for a pending commit.

        Raises `KafkaException`.
        """
        return committed(client, self.seat.topic, [self.seat.partition], timeout)[self.seat.partition]

    @abstractmethod
    def commit_position(self, offset: int) -> None:
        """Commit an offset with my claim, and nothing else; raises `KafkaException`."""

    def end(self) -> int:
        """The high watermark of the log that it reads; raises `KafkaException`."""
        return watermarks(self.watcher, self.seat.topic, self.seat.partition)[1]

    @abstractmethod
    def logs(self) -> list[tuple[str, int]]:
        """The (topic, partition)s by which it judges where to go on."""

    @abstractmethod
    def found(self) -> tuple[int, Claim] | None:
        """The position and its claim as they are behind my fence; None if there are none."""

    @abstractmethod
    def leave(self, offset: int, claim: Claim) -> None:
        """Replace the claim at this position behind my fence, if nothing speaks against it."""

    @property
    def limit(self) -> int:
        """Records in the next batch, with an eye to those that are suspected."""
        trial = self.mine.trial
        return self.batch_limit if trial is None else min(self.batch_limit, trial.limit)

    def present_claim(self) -> Claim:
        """My claim as it is to be committed now."""
        return self.mine

    def claim_now(self) -> Claim | None:
        """The committed claim, read without waiting for pending commits; raises `KafkaException`."""
        return parse_claim(self.committed_by(self.watcher).metadata)

    def judge(self, committed_claim: Claim | None) -> Judgement:
        """Judge a claim against mine; raises `Superseded` if it says to end."""
        judgement = judge(self.mine, committed_claim)
        if judgement.ends:
            raise Superseded(judgement, committed_claim)
        return judgement

    def believes(self, committed_claim: Claim | None) -> bool:
        """True if a contradiction is real, and not a successor at work, given the claim that is committed now."""
        return believable(self.mine, self.claimed, committed_claim)

    def is_settled(self) -> bool:
        """True if every replica of the logs that it judges by is in sync."""
        try:
            return all(is_in_sync(self.watcher, topic, partition) for topic, partition in self.logs())
        except KafkaException:
            return False

    def check_claim(self) -> None:
        """Read the claim while idle: an owner that commits nothing would never notice that it was fenced."""
        found = self.committed_by(self.watcher, COORDINATOR_TIMEOUT)
        if found.offset is None:  # it expired, or is gone with its topic: the next owner sees
            raise ClaimLost("the group's offset is gone")
        if self.judge(parse_claim(found.metadata)) is not Judgement.MINE:
            raise ClaimLost("an older run came back, or somebody moved the group's offset")

    @contextmanager
    def admitted(self, at: int, first: int) -> Iterator[None]:
        """Let a batch through the gate of this Python process. A suspect goes alone, and is announced first.

        `at` is the position, `first` the offset of the batch's first record.
        """
        trial = self.mine.trial
        if trial is None or trial.limit > 1:
            with GATE.shared():
                yield
            return
        with GATE.alone():
            self.mine = replace(self.mine, trial=trial.announce(first))
            self.commit_position(at)
            yield

    def acquitted(self, at: int) -> bool:
        """End a trial at the end of the log, where its suspects are decided, or gone: true if one ended."""
        if self.mine.trial is None or self.end() > at:
            return False
        self.mine = replace(self.mine, trial=None)
        return True
