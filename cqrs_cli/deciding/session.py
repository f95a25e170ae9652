"""The Kafka clients of one owner that decides, and the claim in the metadata of each of its commits."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as replace_log

from confluent_kafka import KafkaError, KafkaException
from msgspec.structs import replace

from cqrs_cli.core.decide import Batch
from cqrs_cli.deciding.errors import explain_log_stall
from cqrs_cli.deciding.in_doubt import hides_forwards
from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.recover import parse_outcome
from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.kafka.readers import StalledError, watermarks
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.kafka.write_errors import BatchLateError, BatchRefusedError
from cqrs_cli.kafka.writer import BatchTransaction, FencedWriter
from cqrs_cli.ownership.claim import Claim, parse_claim
from cqrs_cli.ownership.session import Session


class OwnerSession(Session[FencedWriter]):
    """A session whose position is the group's offset of the commands, and whose claim counts decisions."""

    def __init__(
        self,
        plan: Plan,
        partition: Partition,
        own_claim: Claim,
        batch_limit: int,
        measures: Measures,
        pool: ConsumerPool | None = None,
    ) -> None:
        """`pool`: consumer pool for the steps that read parts of the logs."""
        self.plan, self.partition, self.measures = plan, partition, measures
        self.aggregate_topics = plan.topics[partition.aggregate]
        self.log = replace_log(plan.log(partition), pool=pool)
        self.rules = plan.deciding.rules(
            self.aggregate_topics, partition.number, self.log.codec.payload_threshold
        )
        self.counts = own_claim.counts
        self.batch: Batch | None = None  # the current or last batch
        self.assigned_keys = plan.key_spaces[partition.aggregate].initial_keys(partition.number)
        timing, max_record_bytes = plan.timing, min(self.aggregate_topics.max_bytes[kind] for kind in KINDS)
        writer = FencedWriter(self.log, max_record_bytes, timing.transaction_timeout, timing.produce_timeout)
        super().__init__(plan.connection, plan.claim_slot(partition), writer, own_claim, timing, batch_limit)

    def __exit__(self, *_: object) -> None:
        self.close_log_readers()
        super().__exit__()

    def close_log_readers(self) -> None:
        """Close the pooled clients that have read parts of the logs. The loop reads commands with another client."""
        if self.log.pool is not None:
            self.log.pool.close()

    def bounds(self, kind: Kind) -> tuple[int, int]:
        """Return (start, high watermark) of a log. The end may be above the last stable offset."""
        return self.log.watermarks(self.watcher, kind)

    def read_assigned_keys(self) -> None:
        """Read the assigned keys of the partition. Call it after the fence: the end of the partition history is
        read here, and an end from before the fence may be outdated.
        """
        aggregate_topics, lineage_bounds = self.aggregate_topics, None
        if aggregate_topics.lineage_id is not None:
            lineage_bounds = watermarks(self.watcher, aggregate_topics.topics.lineage, 0)
        self.assigned_keys = self.plan.read_assigned_keys(self.partition, lineage_bounds, self.log.pool)

    def check_forwards(self) -> None:
        """Raise `StalledError` if Kafka hides forwarded commands of this partition in a child's log.

        No other step reads that log, and the writer's next transaction there would commit or abort the transaction that
        Kafka hides.
        """
        hidden = [child for child in self.assigned_keys.target_partitions if self._has_open_forwards(child)]
        if hidden and hides_forwards(self.log, hidden):
            raise StalledError(
                f"an open transaction hides commands that {self.log.log_name('commands')} forwarded"
            )

    def _has_open_forwards(self, child: int) -> bool:
        """Return True if a transaction of any client is open on the commands of a child."""
        return replace_log(self.log, partition=child).has_open_transaction(
            self.consumer, self.watcher, "commands"
        )

    def logs(self) -> list[tuple[str, int]]:
        return [(self.log.topics.name(kind), self.log.partition) for kind in KINDS]

    def current_claim(self) -> Claim:
        """Return the own claim, with the counts of the own decisions."""
        return replace(self.own_claim, counts=self.counts)

    def commit_position(self, offset: int) -> None:
        self.writer.commit_position(self.consumer, offset, self.current_claim().metadata())
        self.offset = offset
        self.has_claimed = True

    @contextmanager
    def transaction(
        self, position: int, failure: str, hint: str, claim: Claim | None = None
    ) -> Iterator[BatchTransaction]:
        """Open a transaction for writes other than a batch. It commits the writes of the block with the position and a
        claim, by default the current claim.

        Raises `KafkaException` if it takes too long, and `ConfigurationError(failure, hint)` if a record is not
        accepted.
        """
        try:
            with self.writer.batch(self.consumer) as transaction:
                yield transaction
                transaction.set_position(position, (claim or self.current_claim()).metadata())
        except BatchLateError as error:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, str(error))) from error
        except BatchRefusedError as error:
            raise ConfigurationError(f"{failure}: {error}", hint) from error
        self.offset, self.has_claimed = position, True

    def position_after_fence(self) -> tuple[int, Claim] | None:
        committed = self.read_commit(self.consumer)
        claim = parse_claim(committed.metadata)
        return None if committed.offset is None or claim is None else (committed.offset, claim)

    def replace_claim(self, offset: int, claim: Claim) -> None:
        """Replace the claim, unless the offset is older than the last decision: a broker that was cut off returns an
        old offset, and a commit of this offset would move the group back.
        """
        if not self.has_later_outcome(offset, claim):
            self.writer.commit_position(self.consumer, self._after_control_records(offset), claim.metadata())

    def has_later_outcome(self, offset: int, claim: Claim | None) -> bool:
        """Return True if the command at this offset, or a later command, has an outcome. Outcomes before an accepted
        loss and unreadable outcomes do not count.
        """
        last_outcome = self.log.last_record("outcomes", *self.log.watermarks(self.consumer, "outcomes"))
        accepted_loss = claim.accepted if claim is not None else None
        if last_outcome is None or (
            accepted_loss is not None and last_outcome.offset < accepted_loss.outcomes
        ):
            return False
        try:
            return parse_outcome(self.log, last_outcome).data.offset >= offset
        except ContradictionError:
            return False

    def _after_control_records(self, offset: int) -> int:
        """Return the end of the log if only control records and aborted records are left from `offset` on, else
        `offset`.

        A position before such records becomes ambiguous: once retention has deleted them, no later owner can
        distinguish them from commands that were never decided.
        """
        start, end = self.log.watermarks(self.consumer, "commands")
        only_control_records = (
            start <= offset < end and self.log.first_record("commands", offset, end) is None
        )
        return end if only_control_records else offset

    @contextmanager
    def explaining_stalls(self) -> Iterator[None]:
        """Replace a `StalledError` of the block by an error that names the open transaction. Raises `KafkaException` if
        the broker does not answer.
        """
        try:
            yield
        except StalledError as error:
            self.bounds("outcomes")  # raises `KafkaException` if the broker does not answer
            aggregate_topics, number = self.aggregate_topics, self.log.partition
            keys_partition = (
                None if aggregate_topics.keys_id is None else aggregate_topics.keys_partition(number)
            )
            raise explain_log_stall(self.log, error, keys_partition) from error
