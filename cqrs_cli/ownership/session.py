"""The Kafka clients of one owner of one partition, and the claim in the metadata of each of its commits."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Self, TypeVar

from confluent_kafka import Consumer, KafkaException
from msgspec.structs import replace

from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, bulk_consumer, consumer, is_in_sync
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.offsets import GroupCommit, committed_offsets
from cqrs_cli.kafka.readers import watermarks
from cqrs_cli.kafka.transactional import COORDINATOR_TIMEOUT, TransactionalWriter
from cqrs_cli.ownership.claim import Claim, Judgement, believable, judge, parse_claim
from cqrs_cli.ownership.committed_claims import ClaimSlot
from cqrs_cli.ownership.signals import ClaimLost, LaterClaim
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.ownership.trials.batch_admission import GATE

_W = TypeVar("_W", bound=TransactionalWriter)


class Session(ABC, Generic[_W]):
    """The clients of one owner, which close with it; the next owner opens new clients. Use as a context manager."""

    def __init__(
        self, connection: Cluster, seat: ClaimSlot, writer: _W, mine: Claim, timing: Timing, batch_limit: int
    ) -> None:
        """`batch_limit`: most records in one commit."""
        self.mine, self.timing, self.batch_limit = mine, timing, batch_limit
        self.offset: int | None = None  # the group's offset, as last read or committed
        self.claimed = False  # True once a commit contains the claim
        self.recovered = False  # True once only the loop remains
        self.useful = False  # True once a batch has been committed
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
        """Connect the clients, so that connecting takes no time after the fence; raises `KafkaException`.

        The consumer also fetches the metadata of its topic: otherwise it finds the partition's leader only a second
        after it has started to read.
        """
        self.consumer.list_topics(self.seat.topic, timeout=self.timing.transaction_timeout)
        watermarks(self.watcher, self.seat.topic, self.seat.partition)  # its leader may have been lost

    def committed_by(self, client: Consumer, timeout: float = REQUEST_TIMEOUT) -> GroupCommit:
        """Return the group's offset and its metadata. A read_committed client waits for a pending commit.

        Raises `KafkaException`.
        """
        return committed_offsets(client, self.seat.topic, [self.seat.partition], timeout)[self.seat.partition]

    @abstractmethod
    def commit_position(self, offset: int) -> None:
        """Commit an offset with my claim, without any record; raises `KafkaException`."""

    def end(self) -> int:
        """Return the high watermark of the log that the owner reads; raises `KafkaException`."""
        return watermarks(self.watcher, self.seat.topic, self.seat.partition)[1]

    @abstractmethod
    def logs(self) -> list[tuple[str, int]]:
        """Return the (topic, partition)s of the logs that determine the position."""

    @abstractmethod
    def found(self) -> tuple[int, Claim] | None:
        """Return the position and its claim as they are after my fence; None if there are none."""

    @abstractmethod
    def leave(self, offset: int, claim: Claim) -> None:
        """Replace the claim at this position after my fence, unless the position is outdated."""

    @property
    def limit(self) -> int:
        """Most records in the next batch; fewer during poison-record detection."""
        trial = self.mine.trial
        return self.batch_limit if trial is None else min(self.batch_limit, trial.limit)

    def present_claim(self) -> Claim:
        """Return my claim as it is to be committed now."""
        return self.mine

    def claim_now(self) -> Claim | None:
        """Return the committed claim, without waiting for pending commits; raises `KafkaException`."""
        return parse_claim(self.committed_by(self.watcher).metadata)

    def judge(self, committed_claim: Claim | None) -> Judgement:
        """Judge a claim against mine; raises `LaterClaim` if the owner must return."""
        judgement = judge(self.mine, committed_claim)
        if judgement.ends:
            raise LaterClaim(judgement, committed_claim)
        return judgement

    def believes(self, committed_claim: Claim | None) -> bool:
        """Return True if an inconsistency is real, and not a successor's work; takes the claim committed now."""
        return believable(self.mine, self.claimed, committed_claim)

    def is_settled(self) -> bool:
        """Return True if every replica of the logs that determine the position is in sync."""
        try:
            return all(is_in_sync(self.watcher, topic, partition) for topic, partition in self.logs())
        except KafkaException:
            return False

    def check_claim(self) -> None:
        """Read the committed claim while idle, because an owner that commits nothing would never notice a fence. Raises
        `ClaimLost` or `LaterClaim` if the claim is not mine, and `KafkaException`.
        """
        found = self.committed_by(self.watcher, COORDINATOR_TIMEOUT)
        if found.offset is None:  # it expired, or its topic is gone: the next owner finds out
            raise ClaimLost("the group's offset is gone")
        if self.judge(parse_claim(found.metadata)) is not Judgement.MINE:
            raise ClaimLost("an older run came back, or somebody moved the group's offset")

    @contextmanager
    def admitted(self, at: int, first: int) -> Iterator[None]:
        """Admit a batch to this Python process for the block. A single suspect is admitted alone, and announced first.

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
        """End poison-record detection at the end of the log, where all suspects are decided or deleted. Return True if
        it ended now.
        """
        if self.mine.trial is None or self.end() > at:
            return False
        self.mine = replace(self.mine, trial=None)
        return True
