"""The plan of a proof on Spark, and the result of each task."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.core.deferral.deferrals import EARLY
from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import Partitioner, target
from cqrs_cli.kafka.topics.topics import AggregateTopics
from cqrs_cli.proof.findings import Report
from cqrs_cli.proof.homes import Homes
from cqrs_cli.scans.verify.since import Generations
from cqrs_cli.scans.verify.state import ShardComparison
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import TELL_EVERY


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """The data that every task needs."""

    connection: Connection
    aggregate: AggregateTopics
    package: str | None  # of the aggregates' code; None: events are judged by their shape
    root: Path  # where the package lies
    partitioner: Partitioner
    window: int  # ms
    longest_window: int  # ms
    shards: Path | None = None  # the folder of the shards to compare with
    since: Generations | None = None  # what an earlier verify has left, and where this one leaves it
    words: Address | None = None  # where tasks tell how far they are
    tell_every: float = TELL_EVERY
    early: int = EARLY  # how long before it is due a deferred command may be decided, ms
    lineage: PartitionLineage | None = None  # of an aggregate that has grown
    patience: float = 40.0  # seconds for an open transaction: a killed owner leaves one open for 20 s

    def homes(self, partition: int) -> Homes | None:
        """The homes of a partition's keys; None if no key has moved."""
        if self.lineage is None:
            return None
        return Homes(self.lineage, partition, partial(target, self.partitioner))


class ProofResult(NamedTuple):
    """The result of one partition: a report, or the error that ends the job.

    `earlier`: the part of the report that an earlier verify has left. `again`: why it was proved from its beginning.
    """

    partition: int
    report: Report = Report()
    earlier: Report | None = None
    again: str = ""
    compared: ShardComparison | None = None
    error: CqrsError | None = None
    records: int = 0  # that were read
