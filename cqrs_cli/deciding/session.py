"""The Kafka clients of one owner, and the claim that rides with each of its commits."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException
from msgspec.structs import replace

from cqrs_cli.core.decide import Batch
from cqrs_cli.deciding.explain import explain_stall
from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.kafka.clients import bulk_consumer, consumer
from cqrs_cli.kafka.readers import StalledError
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.kafka.writer import FencedWriter
from cqrs_cli.ownership.claim import Claim, Judgement, judge, parse_claim
from cqrs_cli.ownership.signals import Superseded


class OwnerSession:
    """It belongs to one owner and closes with it; the next owner begins with new clients."""

    def __init__(
        self, plan: Plan, partition: Partition, mine: Claim, batch_limit: int, measures: Measures
    ) -> None:
        self.plan = plan
        self.measures = measures
        self.partition = partition
        self.timing = plan.timing
        self.described = plan.topics[partition.aggregate]
        self.log = plan.log(partition)
        self.mine = mine
        self.counts = mine.counts
        self.offset: int | None = None  # the group's, as last read or committed
        self.batch_limit = batch_limit  # commands that may be committed at once
        self.claimed = False  # whether a commit carries the claim
        self.useful = False  # whether anything has been decided
        self.batch: Batch | None = None  # the last one
        group = self.log.topics.group
        self.consumer: Consumer = bulk_consumer(
            plan.connection, group=group, fetch_wait_max_ms=500, fetch_min_bytes=1
        )
        self.watcher: Consumer = consumer(plan.connection, group=group, isolation="read_uncommitted")
        self.writer = FencedWriter(
            self.log,
            min(self.described.max_bytes[kind] for kind in KINDS),
            self.timing.transaction_timeout,
            self.timing.produce_timeout,
        )

    def close(self) -> None:
        """Drop the clients."""
        self.consumer.close()
        self.watcher.close()

    @property
    def limit(self) -> int:
        """Commands in the next batch, with an eye to those that are suspected."""
        trial = self.mine.trial
        return self.batch_limit if trial is None else min(self.batch_limit, trial.limit)

    def bounds(self, kind: Kind) -> tuple[int, int]:
        """(start, high watermark) of a log: a read_committed client would give the last stable offset."""
        return self.log.watermarks(self.watcher, kind)

    def claim_now(self) -> Claim | None:
        """The committed claim, read without waiting for pending commits; raises `KafkaException`."""
        return parse_claim(self.log.committed_by(self.watcher).metadata)

    def is_settled(self) -> bool:
        """True if every replica of the partition's logs is in sync."""
        try:
            return all(self.log.is_in_sync(self.watcher, kind) for kind in KINDS)
        except KafkaException:
            return False

    def present_claim(self) -> Claim:
        """My claim with what has been decided under it."""
        return replace(self.mine, counts=self.counts)

    def judge(self, committed_claim: Claim | None) -> Judgement:
        """Judge a claim against mine; raises `Superseded` if it says to end."""
        judgement = judge(self.mine, committed_claim)
        if judgement.ends:
            raise Superseded(judgement, committed_claim)
        return judgement

    def commit_position(self, offset: int) -> None:
        """Commit an offset with my claim; raises `KafkaException`."""
        self.writer.commit_position(self.consumer, offset, self.present_claim().metadata())
        self.offset = offset
        self.claimed = True

    @contextmanager
    def naming_stalls(self) -> Iterator[None]:
        """Name the transaction that hides a log's end; raises `KafkaException` if it is the broker that is gone."""
        try:
            yield
        except StalledError as error:
            self.bounds("outcomes")
            raise explain_stall(self.log, error) from error
