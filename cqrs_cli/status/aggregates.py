"""Reads the status of each partition of an aggregate: its position, its lag and its owner. Needs no Spark."""

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.deciding.errors import hidden_commands
from cqrs_cli.deciding.plan import partition_claim_slot, shard_folder
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_space import KeySpace, poll_key_space
from cqrs_cli.ownership.committed_claims import ClaimReader, CommittedClaim
from cqrs_cli.ownership.trials.slow_command import read_slow_command
from cqrs_cli.status.partition import AGGREGATE, PartitionStatus, owner_of
from cqrs_cli.status.sample import Sampler
from cqrs_cli.telemetry.blocked_file import read_reason


class AggregateStatusReader:
    """Reads the partitions of an aggregate, once or several times over the same connections."""

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        state_dir: Path,
        *,
        confirm_hidden: bool = False,
        with_samples: bool = False,
    ) -> None:
        """Raises `ConfigurationError` if the aggregate's topics do not exist.

        `confirm_hidden`: report a transaction that hides commands only if two polls in a row have found it, because
        most transactions are short. `with_samples`: read the newest records, too.
        """
        self._connection, self._topics, self._confirm_hidden = connection, topics, confirm_hidden
        self._partitions = range(readers.partition_count(connection, topics.commands))
        self._repartitioning = _RepartitioningProgress(connection, topics)
        self._folder = shard_folder(state_dir, topics)
        self._sampler = Sampler(connection, topics) if with_samples else None
        self._hidden_partitions: set[int] = set()  # partitions with hidden commands at the previous poll
        self._claim_reader = self._make_claim_reader()
        self._consumer: Consumer | None = None

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
            stages = self._poll_repartitioning()
            claims, polled_at = self._claim_reader.read_claims(), time.monotonic()
            bounds, stable_ends = self._claim_reader.read_bounds(), self._stable_ends()
            standbys = self._claim_reader.read_standby_runs()
            owners = {committed.open_claim.run for committed in claims.values() if committed.open_claim}
            silent_seconds = self._claim_reader.read_silence(owners) if owners else {}
            statuses = []
            for partition, committed in claims.items():
                status = self._status(
                    partition, polled_at, committed, standbys[partition], bounds[partition], silent_seconds
                )
                statuses.append(replace(status, growth=stages.get(partition)))
            if self._sampler is not None:
                reader = self._reader()
                statuses = [
                    self._sampler.add_details(status, reader, stable_ends[status.partition])
                    for status in statuses
                ]
        except (KafkaException, CqrsError) as error:
            # A client may keep wrong metadata for minutes if its broker was cut off from the cluster when it connected.
            self.close()
            raise self._to_error(error) from error
        hidden_partitions = {
            partition for partition, end in stable_ends.items() if end < bounds[partition][1]
        }
        return self._with_open_transactions(statuses, hidden_partitions)

    def _poll_repartitioning(self) -> Mapping[int, str]:
        """Return the stage of the repartitioning in each partition that takes part.

        Partitions that were added since the last poll are included from now on, with new clients: the old clients do
        not know these partitions.
        """
        count = readers.partition_count_with(self._connection, self._reader(), self._topics.commands)
        if count > len(self._partitions):
            self.close()
            self._partitions = range(count)
            self._claim_reader = self._make_claim_reader()
        return self._repartitioning.poll_stages(self._reader(), len(self._partitions))

    def _reader(self) -> Consumer:
        """Return the client that reads only committed records; open it if necessary."""
        if self._consumer is None:
            self._consumer = clients.consumer(self._connection, fetch_wait_max_ms=10)
        return self._consumer

    def _stable_ends(self) -> dict[int, int]:
        """Return the last stable offset of the commands of each partition: no open transaction is before it."""
        reader, topic = self._reader(), self._topics.commands
        return {partition: readers.watermarks(reader, topic, partition)[1] for partition in self._partitions}

    def _status(
        self,
        partition: int,
        polled_at: float,
        committed: CommittedClaim,
        standbys: tuple[str, ...],
        bounds: tuple[int, int],
        silent_seconds: Mapping[str, float],
    ) -> PartitionStatus:
        """Return the status of a partition whose commands have these (start, end) `bounds`."""
        start, end = bounds
        claim, shard = committed.claim, self._folder / str(partition)
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
            owned=committed.open_claim is not None,
            standbys=tuple(run for run in standbys if claim is None or run != claim.run),
            counts=None if claim is None else claim.counts,
            topic_id=None if claim is None else claim.topic_id,
            trial=None if claim is None or claim.suspects is None else str(claim.suspects),
            slow=read_slow_command(shard),
            waits_for=(read_reason(shard) or None) if lag else None,
        )

    def _with_open_transactions(
        self, statuses: list[PartitionStatus], hidden_partitions: set[int]
    ) -> list[PartitionStatus]:
        """Add the transactions that hide the last commands of `hidden_partitions`."""
        confirmed = hidden_partitions & self._hidden_partitions if self._confirm_hidden else hidden_partitions
        self._hidden_partitions = hidden_partitions
        topic_partitions = [(self._topics.commands, partition) for partition in sorted(confirmed)]
        status_by_partition = {status.partition: status for status in statuses}
        for transaction in hidden_commands(self._connection, topic_partitions):
            hint = transaction.hint(self._connection.bootstrap_server)
            status = status_by_partition[transaction.partition]
            status_by_partition[transaction.partition] = replace(status, hidden_by=transaction, way_out=hint)
        return list(status_by_partition.values())

    def _to_error(self, error: KafkaException | CqrsError) -> CqrsError:
        """Return the error for a failed poll: the missing ACL if there is one, because librdkafka reports a timeout for
        a group that it may not describe.
        """
        acl = RequiredAcl("Describe", "group", self._topics.group)
        with Admin(self._connection) as admin:
            if admin.missing_acls([acl]):
                return acl.denied("read")
        if isinstance(error, KafkaException):
            return clients.to_error(self._connection, error, acl)
        return clients.unreachable_error(self._connection, error.message) if _is_temporary(error) else error


class _RepartitioningProgress:
    """Reads the progress of a repartitioning. It reads the partition history again only if the history has new
    records.
    """

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._connection, self._topics = connection, topics
        self._key_space: KeySpace | None = None
        self._end = 0

    def poll_stages(self, reader: Consumer, partition_count: int) -> Mapping[int, str]:
        """Return partition → stage; empty without a repartitioning."""
        topic = self._topics.lineage
        if self._key_space is None and not readers.partition_count_with(self._connection, reader, topic):
            return {}
        end = readers.watermarks(reader, topic, 0)[1]
        if self._key_space is None or end != self._end:
            self._key_space, self._end = poll_key_space(self._connection, self._topics, partition_count), end
        return self._key_space.stages(partition_count)


def _is_temporary(error: CqrsError) -> bool:
    """Return True for a temporary error of a broker that has just restarted."""
    return isinstance(error, (readers.MissingError, readers.StalledError))


def aggregate_statuses(connection: Connection, topics: Topics, state_dir: Path) -> list[PartitionStatus]:
    """Return the current status of every partition of an aggregate."""
    with closing(AggregateStatusReader(connection, topics, state_dir)) as reader:
        return reader.poll_statuses()
