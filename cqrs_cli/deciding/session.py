"""The Kafka clients of one owner that decides, and the claim in the metadata of each of its commits."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as replace_log

from confluent_kafka import KafkaError, KafkaException
from msgspec.structs import replace

from cqrs_cli.core.decide import Batch
from cqrs_cli.deciding.errors import explain_log_stall
from cqrs_cli.deciding.in_doubt import hides_commands
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.kafka.readers import StalledError, watermarks
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.kafka.write_errors import BatchLateError, BatchRefusedError
from cqrs_cli.kafka.writer import BatchTransaction, FencedWriter
from cqrs_cli.ownership.claim import Claim, parse_claim
from cqrs_cli.ownership.decided_end import decided_end
from cqrs_cli.ownership.session import Session


class OwnerSession(Session[FencedWriter]):
    """The session of an owner that decides. Its position is the committed offset of the commands; its claim contains
    the counts of its decisions.
    """

    def __init__(
        self,
        plan: Plan,
        partition: Partition,
        own_claim: Claim,
        batch_limit: int,
        pool: ConsumerPool | None = None,
    ) -> None:
        """`pool`: the consumers that read parts of the logs in steps 3 and 4 (`deciding.owner`)."""
        self.plan, self.partition = plan, partition
        self.aggregate_topics = plan.topics[partition.aggregate]
        self.log = replace_log(plan.log(partition), pool=pool)
        self.rules = plan.deciding.rules(
            self.aggregate_topics, partition.number, self.log.codec.payload_threshold
        )
        self.counts = own_claim.counts
        self._committed_claim: Claim | None = None  # the claim of this session's last commit of a position
        self._position_committed_at = 0.0  # monotonic seconds
        self.batch: Batch | None = None  # the current or last batch
        self.assigned_keys = plan.key_spaces[partition.aggregate].initial_assigned_keys(partition.number)
        timing, max_record_bytes = plan.timing, min(self.aggregate_topics.max_bytes[kind] for kind in KINDS)
        writer = FencedWriter(self.log, max_record_bytes, timing.transaction_timeout, timing.produce_timeout)
        super().__init__(plan.connection, plan.claim_slot(partition), writer, own_claim, timing, batch_limit)

    def __exit__(self, *_: object) -> None:
        self.close_log_readers()
        super().__exit__()

    def close_log_readers(self) -> None:
        """Close the consumers of the pool: steps 3 and 4 are done, and the loop reads commands with `consumer`."""
        if self.log.pool is not None:
            self.log.pool.close()

    def bounds(self, kind: Kind) -> tuple[int, int]:
        """Return (log start, high watermark) of a log."""
        return self.log.watermarks(self.uncommitted_consumer, kind)

    def read_assigned_keys(self) -> None:
        """Read the assigned keys of the partition from the partition history. Call this after the fence: the end of the
        history is requested here, and an end from before the fence may be outdated.
        """
        aggregate_topics, lineage_bounds = self.aggregate_topics, None
        if aggregate_topics.lineage_id is not None:
            lineage_bounds = watermarks(self.uncommitted_consumer, aggregate_topics.topics.lineage, 0)
        self.assigned_keys = self.plan.read_assigned_keys(self.partition, lineage_bounds, self.log.pool)

    def check_commands(self) -> None:
        """Raise `StalledError` if Kafka hides commands of this partition's writer: forwarded commands in a child's log,
        or resubmitted commands in the own log.

        No other step notices them: the owner does not read the child's log, and hidden commands in its own log may
        belong to a client. The writer's next transaction in this log would commit or abort the hidden transaction, too.
        """
        partitions_in_doubt = [
            partition
            for partition in (self.log.partition, *self.assigned_keys.child_partitions)
            if self._has_open_transaction(partition)
        ]
        if partitions_in_doubt and hides_commands(self.log, partitions_in_doubt):
            raise StalledError(
                f"an open transaction hides commands that {self.log.log_name('commands')} forwarded or resubmitted"
            )

    def _has_open_transaction(self, partition: int) -> bool:
        """Return True if a transaction of any client is open on the commands of a partition."""
        return replace_log(self.log, partition=partition).has_open_transaction(
            self.consumer, self.uncommitted_consumer, "commands"
        )

    def logs(self) -> list[tuple[str, int]]:
        return [(self.log.topics.name(kind), self.log.partition) for kind in KINDS]

    def current_claim(self) -> Claim:
        """Return the own claim with the present counts of decisions."""
        return replace(self.own_claim, counts=self.counts)

    def commit_position(self, offset: int) -> None:
        claim = self.current_claim()
        self.writer.commit_position(self.consumer, offset, claim.metadata())
        self.record_commit(offset, claim)

    def record_commit(self, offset: int, claim: Claim) -> None:
        """Remember the group's position and claim after a commit of both."""
        self.offset, self.has_claimed = offset, True
        self._position_committed_at, self._committed_claim = time.monotonic(), claim

    def is_position_due(self, claim: Claim) -> bool:
        """Return True if the next transaction must commit the position with this claim: the claim has changed apart
        from its counts, or the last commit of a position was `Timing.position_interval` ago.
        """
        committed_claim = self._committed_claim
        return (
            committed_claim is None
            or replace(claim, counts=committed_claim.counts) != committed_claim
            or time.monotonic() - self._position_committed_at >= self.timing.position_interval
        )

    @contextmanager
    def transaction(
        self, position: int, failure: str, hint: str, claim: Claim | None = None
    ) -> Iterator[BatchTransaction]:
        """Open a transaction for writes that are no batch of decisions. At the end of the `with` block, commit its
        writes together with `position` and `claim` (default: the current claim).

        Raises `KafkaException` if the transaction takes too long, and `ConfigurationError(failure, hint)` if a topic
        does not accept a record.
        """
        try:
            with self.writer.batch(self.consumer) as transaction:
                yield transaction
                transaction.set_position(position, (claim or self.current_claim()).metadata())
        except BatchLateError as error:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, str(error))) from error
        except BatchRefusedError as error:
            raise ConfigurationError(f"{failure}: {error}", hint) from error
        self.record_commit(position, claim or self.current_claim())

    def position_after_fence(self) -> tuple[int, Claim] | None:
        committed = self.read_commit(self.consumer)
        claim = parse_claim(committed.metadata)
        if committed.offset is None or claim is None:
            return None
        return self.first_undecided(committed.offset, claim), claim

    def replace_claim(self, offset: int, claim: Claim) -> None:
        self.writer.commit_position(self.consumer, self._after_control_records(offset), claim.metadata())

    def first_undecided(self, offset: int, claim: Claim | None) -> int:
        """Return the offset of the first undecided command, at or after the group's offset. A commit of an earlier
        offset would move the group back.
        """
        outcomes = self.log.watermarks(self.consumer, "outcomes")
        return decided_end(self.log, offset, claim, outcomes, self.log_end())

    def _after_control_records(self, offset: int) -> int:
        """Return the end of the log if it has only control records and aborted records from `offset` on, else `offset`.

        A position before such records would become ambiguous: after retention has deleted them, no later owner could
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
