"""The plan of a verification on Spark, and the result of each task."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.core.deferral.deferrals import CLOCK_TOLERANCE
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import AggregateTopics
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.proof.findings import Report
from cqrs_cli.scans.verify.checkpoints import Generations
from cqrs_cli.scans.verify.state import ShardComparison
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import REPORT_INTERVAL


@dataclass(frozen=True, slots=True)
class VerificationPlan:
    """The data that each task needs."""

    connection: Connection
    aggregate: AggregateTopics
    package: str | None  # of the aggregates' code; None: only the shapes of events are checked
    root: Path  # folder of the package
    key_space: KeySpace
    window: int  # ms
    longest_window: int  # ms; the longest dedup window there ever was
    shards: Path | None = None  # the folder of the shards to compare with
    generations: Generations | None = None  # folders of the earlier and the new checkpoint
    report_address: Address | None = None  # where tasks send progress reports
    report_interval: float = REPORT_INTERVAL  # seconds between two reports
    max_earliness: int = CLOCK_TOLERANCE  # by how much a deferred command may be early, ms
    #: Seconds to wait for open transactions. The broker aborts the transaction of a killed owner after 20 s.
    transaction_timeout: float = 40.0


class VerificationResult(NamedTuple):
    """The result for one partition: a report, or the error that ends the job.

    `earlier`: the report in the checkpoint. `restart_reason`: why the partition was verified from its start instead of
    from its checkpoint; empty if it was not.
    """

    partition: int
    report: Report = Report()
    earlier: Report | None = None
    restart_reason: str = ""
    compared: ShardComparison | None = None
    error: CqrsError | None = None
    records: int = 0  # records read
    keys_partition: int = 0  # the partition of the keys topic that was read
