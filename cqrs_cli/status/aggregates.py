"""Reads the status of each partition of an aggregate: its position, its lag and its owner. Needs no Spark."""

import time
from collections.abc import Mapping
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException
from msgspec.structs import replace

from cqrs_cli.deciding.errors import transactions_hiding_commands
from cqrs_cli.deciding.plan import partition_claim_slot, shards_folder_of
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.committed_claims import ClaimReader, CommittedClaim
from cqrs_cli.status.partition import AGGREGATE, PartitionStatus, owner_of
from cqrs_cli.status.repartitioning import RepartitioningProgress
from cqrs_cli.status.sample import Sampler
from cqrs_cli.telemetry.status_file import OwnerStatus, read_status

#: Seconds between two reads of the number of partitions and of the starts of their logs, which change rarely. With
#: 1,000 partitions, the metadata alone take as long as all other requests of a poll.
_REFRESH_INTERVAL = 5.0


class AggregateStatusReader:
    """Reads the partitions of an aggregate, once or several times over the same connections."""

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        state_dir: Path,
        *,
        confirm_hidden: bool = False,
        max_samples: float = 0,
    ) -> None:
        """Raises `ConfigurationError` if the aggregate's topics do not exist.

        `confirm_hidden`: report a transaction that hides commands only if two polls in a row have found it, because
        most transactions are short. `max_samples`: the number of partitions whose newest records are read, too.
        """
        self._connection, self._topics, self._confirm_hidden = connection, topics, confirm_hidden
        self._partitions = range(readers.partition_count(connection, topics.commands))
        self._repartitioning = RepartitioningProgress(connection, topics)
        self._folder = shards_folder_of(state_dir, topics)
        self._sampler = Sampler(connection, topics, max_samples) if max_samples else None
        self._hidden_partitions: set[int] = set()  # partitions with hidden commands at the previous poll
        self._claim_reader = self._make_claim_reader()
        self._consumer: Consumer | None = None
        self._starts: dict[int, int] = {}
        #: Partition → the arguments of its last status, and the status.
        self._last_statuses: dict[int, tuple[tuple[Any, ...], PartitionStatus]] = {}
        self._refreshed_at = -inf

    def _make_claim_reader(self) -> ClaimReader[int]:
        claim_slots = {number: partition_claim_slot(self._topics, number) for number in self._partitions}
        return ClaimReader(self._connection, claim_slots)

    def close(self) -> None:
        """Close the connections; another poll opens new connections."""
        self._claim_reader.__exit__()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def poll_statuses(self) -> list[PartitionStatus]:
        """Return the current status of every partition; raises `UnavailableError` if the broker does not answer."""
        try:
            is_late = time.monotonic() - self._refreshed_at > _REFRESH_INTERVAL
            if self._repartitioning.has_new_records(self._reader()) or is_late:
                self._refresh_partitions()
            stages = self._repartitioning.poll_stages(len(self._partitions))
            claims, polled_at = self._claim_reader.read_claims(), time.monotonic()
            ends, stable_ends = self._claim_reader.read_ends(), self._stable_ends()
            bounds = {partition: (self._starts[partition], end) for partition, end in ends.items()}
            standbys = self._claim_reader.read_standby_runs()
            owners = {committed.open_claim.run for committed in claims.values() if committed.open_claim}
            silent_seconds = self._claim_reader.read_silence(owners) if owners else {}
            has_shards, no_status = self._folder.is_dir(), OwnerStatus()
            statuses = [
                self._cached_status(
                    partition,
                    polled_at,
                    committed,
                    standbys[partition],
                    bounds[partition],
                    silent_seconds,
                    stages.get(partition),
                    read_status(self._folder / str(partition)) if has_shards else no_status,
                )
                for partition, committed in claims.items()
            ]
            if self._sampler is not None:
                statuses = self._sampler.with_details(statuses, self._reader(), stable_ends)
        except (KafkaException, CqrsError) as error:
            # A client may keep wrong metadata for minutes if its broker was cut off from the cluster when it connected.
            self.close()
            raise self._to_error(error) from error
        hidden_partitions = {
            partition for partition, end in stable_ends.items() if end < bounds[partition][1]
        }
        return self._with_open_transactions(statuses, hidden_partitions)

    def _refresh_partitions(self) -> None:
        """Read the number of partitions, and the starts of their logs.

        Partitions that were added since the last poll are included from now on, with new clients: the old clients do
        not know these partitions.
        """
        count = readers.partition_count_with(self._connection, self._reader(), self._topics.commands)
        if count > len(self._partitions):
            self.close()
            self._partitions = range(count)
            self._claim_reader = self._make_claim_reader()
        bounds = self._claim_reader.read_bounds()
        self._starts = {partition: start for partition, (start, _) in bounds.items()}
        self._refreshed_at = time.monotonic()

    def _reader(self) -> Consumer:
        """Return the client that reads only committed records; open it if necessary."""
        if self._consumer is None:
            self._consumer = clients.consumer(self._connection, fetch_wait_max_ms=10)
        return self._consumer

    def _stable_ends(self) -> dict[int, int]:
        """Return the last stable offset of the commands of each partition: no open transaction is before it."""
        return readers.all_ends(self._reader(), self._topics.commands, self._partitions)

    def _cached_status(self, partition: int, polled_at: float, *observed: Any) -> PartitionStatus:
        """Return `_status`. If the poll has observed the same as the last poll, the status has the same values."""
        last_observed, status = self._last_statuses.get(partition, (None, None))
        if status is None or last_observed != observed:
            status = self._status(partition, polled_at, *observed)
            self._last_statuses[partition] = observed, status
        return replace(status, polled_at=polled_at)

    def _status(
        self,
        partition: int,
        polled_at: float,
        committed: CommittedClaim,
        standbys: tuple[str, ...],
        bounds: tuple[int, int],
        silent_seconds: Mapping[str, float],
        stage: str | None,
        owner_status: OwnerStatus,
    ) -> PartitionStatus:
        """Return the status of a partition whose commands have these (start, end) `bounds`."""
        start, end = bounds
        claim = committed.claim
        lag = max(0, end - max(start, committed.offset or 0))
        return PartitionStatus(
            AGGREGATE,
            self._topics.aggregate,
            self._topics.aggregate,
            self._topics.commands,
            partition,
            polled_at=polled_at,
            start=start,
            end=end,
            position=committed.offset,
            lag=lag,
            owner=owner_of(claim, silent_seconds),
            is_owned=committed.open_claim is not None,
            repartitioning_stage=stage,
            standbys=tuple(run for run in standbys if claim is None or run != claim.run),
            counts=None if claim is None else claim.counts,
            topic_id=None if claim is None else claim.topic_id,
            suspect_text=None if claim is None or claim.suspects is None else str(claim.suspects),
            slow_command=owner_status.slow,
            wait_reason=(owner_status.blocked or None) if lag else None,
        )

    def _with_open_transactions(
        self, statuses: list[PartitionStatus], hidden_partitions: set[int]
    ) -> list[PartitionStatus]:
        """Add the transactions that hide the last commands of `hidden_partitions`."""
        previous_partitions, self._hidden_partitions = self._hidden_partitions, hidden_partitions
        confirmed_partitions = (
            hidden_partitions & previous_partitions if self._confirm_hidden else hidden_partitions
        )
        topic_partitions = [(self._topics.commands, partition) for partition in sorted(confirmed_partitions)]
        status_by_partition = {status.partition: status for status in statuses}
        for transaction in transactions_hiding_commands(self._connection, topic_partitions):
            hint = transaction.hint(self._connection)
            status = status_by_partition[transaction.partition]
            status_by_partition[transaction.partition] = replace(
                status, hiding_transaction=transaction, remedy_command=hint
            )
        return list(status_by_partition.values())

    def _to_error(self, error: KafkaException | CqrsError) -> CqrsError:
        """Return the error for a failed poll: the missing ACL if there is one, because librdkafka reports a timeout for
        a group that it may not describe.
        """
        acl = RequiredAcl("Describe", "group", self._topics.group)
        with Admin(self._connection) as admin:
            if admin.missing_acls([acl]):
                return acl.denied_error("read")
        if isinstance(error, KafkaException):
            return clients.to_error(self._connection, error, acl)
        return clients.unreachable_error(self._connection, error.message) if _is_temporary(error) else error


def _is_temporary(error: CqrsError) -> bool:
    """Return True for a temporary error of a broker that has just restarted."""
    return isinstance(error, (readers.MissingPartitionError, readers.StalledError))


def aggregate_statuses(connection: Connection, topics: Topics, state_dir: Path) -> list[PartitionStatus]:
    """Return the current status of every partition of an aggregate."""
    with closing(AggregateStatusReader(connection, topics, state_dir)) as reader:
        return reader.poll_statuses()
