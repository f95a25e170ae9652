"""The Kafka clients of one owner of one partition, and the claim in the metadata of each of its commits."""

import time
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
from cqrs_cli.ownership.claim import Claim, Judgement, is_inconsistency_real, judge, parse_claim
from cqrs_cli.ownership.committed_claims import ClaimSlot
from cqrs_cli.ownership.poison_detection.batch_admission import BATCH_ADMISSION
from cqrs_cli.ownership.signals import ClaimLost, LaterClaim
from cqrs_cli.ownership.timing import Timing

_W = TypeVar("_W", bound=TransactionalWriter)


class Session(ABC, Generic[_W]):
    """The clients of one owner, which close with it; the next owner opens new clients. Use as a context manager."""

    def __init__(
        self,
        connection: Cluster,
        slot: ClaimSlot,
        writer: _W,
        own_claim: Claim,
        timing: Timing,
        batch_limit: int,
    ) -> None:
        """`batch_limit`: the maximal number of records in one commit."""
        self.own_claim, self.timing, self.batch_limit = own_claim, timing, batch_limit
        self.check_interval, self._refreshed_at = timing.idle_check_interval, time.monotonic()
        self.offset: int | None = None  # the group's offset, as last read or committed
        self.has_claimed = False  # True once a commit contains the claim
        self.is_recovered = False  # True once all steps before the loop are done
        self.has_committed_batch = False  # True once a batch has been committed
        self.slot, self.writer = slot, writer
        self.consumer: Consumer = bulk_consumer(
            connection, group=slot.group, fetch_wait_max_ms=500, fetch_min_bytes=1
        )
        self.uncommitted_consumer: Consumer = consumer(
            connection, group=slot.group, isolation="read_uncommitted"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()
        self.uncommitted_consumer.close()

    def connect(self) -> None:
        """Connect the clients, so that connecting takes no time after the fence; raises `KafkaException`.

        The consumer also fetches the metadata of its topic: otherwise it finds the partition's leader only a second
        after it has started to read.
        """
        self.consumer.list_topics(self.slot.topic, timeout=self.timing.transaction_timeout)
        # This request also makes the client find the partition's leader again.
        watermarks(self.uncommitted_consumer, self.slot.topic, self.slot.partition)

    def read_commit(self, client: Consumer, timeout: float = REQUEST_TIMEOUT) -> GroupCommit:
        """Return the group's offset and its metadata. A read_committed client waits for a pending commit.

        Raises `KafkaException`.
        """
        return committed_offsets(client, self.slot.topic, [self.slot.partition], timeout)[self.slot.partition]

    @abstractmethod
    def commit_position(self, offset: int) -> None:
        """Commit an offset with the own claim, without any record; raises `KafkaException`."""

    def log_end(self) -> int:
        """Return the high watermark of the log that the owner reads; raises `KafkaException`."""
        return watermarks(self.uncommitted_consumer, self.slot.topic, self.slot.partition)[1]

    @abstractmethod
    def logs(self) -> list[tuple[str, int]]:
        """Return the (topic, partition) pairs of the logs that determine the position."""

    @abstractmethod
    def position_after_fence(self) -> tuple[int, Claim] | None:
        """Return the position and its claim after the fence; None if there is no position or no claim."""

    @abstractmethod
    def replace_claim(self, offset: int, claim: Claim) -> None:
        """Replace the claim at this position, after the fence of this session."""

    @property
    def limit(self) -> int:
        """The maximal number of records in the next batch, which is lower during poison-record detection."""
        suspects = self.own_claim.suspects
        return self.batch_limit if suspects is None else min(self.batch_limit, suspects.limit)

    def current_claim(self) -> Claim:
        """Return the own claim for the next commit."""
        return self.own_claim

    def read_committed_claim(self) -> Claim | None:
        """Return the committed claim, without waiting for pending commits; raises `KafkaException`."""
        return parse_claim(self.read_commit(self.uncommitted_consumer).metadata)

    def judge(self, committed_claim: Claim | None) -> Judgement:
        """Compare the committed claim with the own claim; raises `LaterClaim` if the owner must return."""
        judgement = judge(self.own_claim, committed_claim)
        if judgement.must_return:
            raise LaterClaim(judgement, committed_claim)
        return judgement

    def is_inconsistency_real(self, committed_claim: Claim | None) -> bool:
        """Return True if an inconsistency is real, and not the result of a successor's writes. `committed_claim` must
        be read after the inconsistency was found.
        """
        return is_inconsistency_real(self.own_claim, self.has_claimed, committed_claim)

    def are_replicas_in_sync(self) -> bool:
        """Return True if every replica of the logs that determine the position is in sync."""
        try:
            return all(
                is_in_sync(self.uncommitted_consumer, topic, partition) for topic, partition in self.logs()
            )
        except KafkaException:
            return False

    def check_claim(self) -> None:
        """Read the committed claim while idle, because an owner that commits nothing would never notice a fence. Raises
        `ClaimLost` or `LaterClaim` if the committed claim is not the own claim, and `KafkaException`.
        """
        commit = self.read_commit(self.uncommitted_consumer, COORDINATOR_TIMEOUT)
        if commit.offset is None:  # it expired, or its topic is gone: the next owner checks this
            raise ClaimLost("the group's offset is gone")
        if self.judge(parse_claim(commit.metadata)) is not Judgement.OWN:
            raise ClaimLost("an older run came back, or another client changed the group's offset")

    def check_owner(self, position: int) -> None:
        """Check the claim, and commit the position if it has changed, or before the group's offset expires."""
        self.check_claim()
        must_refresh = time.monotonic() - self._refreshed_at > self.timing.offset_refresh_interval
        if self.clear_suspects(position) or must_refresh or position != self.offset:
            self.commit_position(position)
            self._refreshed_at = time.monotonic()

    @contextmanager
    def admit_batch(self, position: int, first_offset: int) -> Iterator[None]:
        """Admit a batch to this Python process for the `with` block. A single suspect is announced first, and admitted
        alone.

        `position`: the offset to commit. `first_offset`: the offset of the batch's first record.
        """
        suspects = self.own_claim.suspects
        if suspects is None or suspects.limit > 1:
            with BATCH_ADMISSION.admit_batch():
                yield
            return
        with BATCH_ADMISSION.admit_suspect():
            self.own_claim = replace(self.own_claim, suspects=suspects.announce(first_offset))
            self.commit_position(position)
            yield

    def clear_suspects(self, position: int) -> bool:
        """End poison-record detection at the end of the log, where all suspects are decided or deleted. Return True if
        it ended now.
        """
        if self.own_claim.suspects is None or self.log_end() > position:
            return False
        self.own_claim = replace(self.own_claim, suspects=None)
        return True
