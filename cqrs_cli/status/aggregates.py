"""Reads the status of each partition of an aggregate: its position, its lag and its owner. Needs no Spark."""

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.core.lineage import PartitionLineage, Stage
from cqrs_cli.deciding.errors import hidden_commands
from cqrs_cli.deciding.plan import partition_seat, shard_folder
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.lineage_log import visible_lineage
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.committed_claims import ClaimReader, CommittedClaim
from cqrs_cli.ownership.trials.slow_command import slow_command
from cqrs_cli.status.partition import DECIDED, PlaceStatus, claimed
from cqrs_cli.status.sample import Sampler
from cqrs_cli.telemetry.blocked_file import blocked_by


class DecidedReader:
    """Reads the partitions of an aggregate, once or several times over the same connections."""

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        state_dir: Path,
        *,
        again: bool = False,
        sampling: bool = False,
    ) -> None:
        """Raises `ConfigurationError` if its topics do not exist.

        `again`: a transaction that hides commands is reported at the second poll in a row, because most are short.
        `sampling`: the newest records are read, too.
        """
        self._connection, self._topics, self._again = connection, topics, again
        self._numbers = range(readers.partition_count(connection, topics.commands))
        self._growth = _Growth(connection, topics)
        self._folder = shard_folder(state_dir, topics)
        self._sampler = Sampler(connection, topics) if sampling else None
        self._hidden: set[int] = set()  # partitions with hidden commands at the previous poll
        self._standings = self._seated()
        self._reader: Consumer | None = None

    def _seated(self) -> ClaimReader[int]:
        seats = {number: partition_seat(self._topics, number) for number in self._numbers}
        return ClaimReader(self._connection, seats)

    def close(self) -> None:
        """Close the connections; another poll opens new connections."""
        self._standings.__exit__()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def look(self) -> list[PlaceStatus]:
        """Return the current status of every partition; raises `UnavailableError` if the broker does not answer."""
        try:
            stages = self._look_at_growth()
            standings, at = self._standings.look(), time.monotonic()
            bounds, stable = self._standings.bounds(), self._stable()
            waiting = self._standings.standbys()
            seen = [
                replace(
                    self._place(number, at, one, waiting[number], *bounds[number]), growth=stages.get(number)
                )
                for number, one in standings.items()
            ]
            if self._sampler is not None:
                reader = self._connected()
                seen = [self._sampler.add_to(one, reader, stable[one.partition]) for one in seen]
        except (KafkaException, CqrsError) as error:
            # A client that connected to a broker without its cluster may keep wrong metadata for minutes.
            self.close()
            raise self._failure(error) from error
        return self._with_hiding(seen, {number for number, end in stable.items() if end < bounds[number][1]})

    def _look_at_growth(self) -> Mapping[int, Stage]:
        """Include partitions that were added since the last poll; new clients read them, because old clients do not
        know them.
        """
        count = readers.partition_count_with(self._connection, self._connected(), self._topics.commands)
        if count > len(self._numbers):
            self.close()
            self._numbers = range(count)
            self._standings = self._seated()
        return self._growth.look(self._connected(), len(self._numbers))

    def _connected(self) -> Consumer:
        """Return a client that sees only committed records."""
        if self._reader is None:
            self._reader = clients.consumer(self._connection, fetch_wait_max_ms=10)
        return self._reader

    def _stable(self) -> dict[int, int]:
        """Return the end of the committed commands of each partition."""
        reader, topic = self._connected(), self._topics.commands
        return {number: readers.watermarks(reader, topic, number)[1] for number in self._numbers}

    def _place(
        self, number: int, at: float, found: CommittedClaim, standbys: tuple[str, ...], start: int, end: int
    ) -> PlaceStatus:
        claim, shard = found.claim, self._folder / str(number)
        lag = max(0, end - max(start, found.offset or 0))
        return PlaceStatus(
            DECIDED,
            self._topics.aggregate,
            self._topics.aggregate,
            self._topics.commands,
            number,
            at=at,
            start=start,
            end=end,
            position=found.offset,
            lag=lag,
            owner=claimed(claim),
            owned=found.open_claim is not None,
            standbys=tuple(run for run in standbys if claim is None or run != claim.run),
            counts=None if claim is None else claim.counts,
            topic_id=None if claim is None else claim.topic_id,
            trial=None if claim is None or claim.trial is None else str(claim.trial),
            slow=slow_command(shard),
            waits_for=(blocked_by(shard) or None) if lag else None,
        )

    def _with_hiding(self, seen: list[PlaceStatus], behind: set[int]) -> list[PlaceStatus]:
        """Add the transactions that hide the last commands of the partitions in `behind`."""
        asked = behind & self._hidden if self._again else behind
        self._hidden = behind
        places = [(self._topics.commands, number) for number in sorted(asked)]
        found = {one.partition: one for one in hidden_commands(self._connection, places)}
        return [
            replace(one, hidden_by=hides, way_out=hides.way_out(self._connection.bootstrap_server))
            if (hides := found.get(one.partition))
            else one
            for one in seen
        ]

    def _failure(self, error: KafkaException | CqrsError) -> CqrsError:
        """Return the missing ACL if there is one: librdkafka reports a timeout for a group that it may not describe."""
        need = RequiredAcl("Describe", "group", self._topics.group)
        with Admin(self._connection) as admin:
            if admin.missing_acls([need]):
                return need.denied("read")
        if isinstance(error, KafkaException):
            return clients.to_error(self._connection, error, need)
        return clients.unreachable_error(self._connection, error.message) if _passes(error) else error


class _Growth:
    """The progress of a repartitioning. The partition history is read again only if it has new records."""

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._connection, self._topics = connection, topics
        self._lineage: PartitionLineage | None = None
        self._end = 0

    def look(self, reader: Consumer, there: int) -> Mapping[int, Stage]:
        topic = self._topics.lineage
        if self._lineage is None and not readers.partition_count_with(self._connection, reader, topic):
            return {}
        end = readers.watermarks(reader, topic, 0)[1]
        if self._lineage is None or end != self._end:
            self._lineage, self._end = visible_lineage(self._connection, self._topics, there), end
        return self._lineage.stages(there)


def _passes(error: CqrsError) -> bool:
    """True for a temporary error of a broker that has just restarted."""
    return isinstance(error, (readers.MissingError, readers.StalledError))


def decided_places(connection: Connection, topics: Topics, state_dir: Path) -> list[PlaceStatus]:
    """Return the current status of every partition of an aggregate."""
    with closing(DecidedReader(connection, topics, state_dir)) as reader:
        return reader.look()
