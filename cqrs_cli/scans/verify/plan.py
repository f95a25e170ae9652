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
from cqrs_cli.scans.verify.checkpoints import CheckpointFolders
from cqrs_cli.scans.verify.state import ShardComparison
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import REPORT_INTERVAL


@dataclass(frozen=True, slots=True)
class VerificationPlan:
    """The data that each task needs."""

    connection: Connection
    aggregate_topics: AggregateTopics
    #: The package of the aggregates. None: there is no code to decode events, so only their JSON shape is checked.
    package: str | None
    root: Path  # folder of the package
    key_space: KeySpace
    dedup_window: int  # ms
    longest_window: int  # ms; the longest dedup window of any run
    shards_folder: Path | None = None  # the folder of the shards to compare with
    checkpoints: CheckpointFolders | None = None  # with --incremental
    report_address: Address | None = None  # where tasks send progress reports
    report_interval: float = REPORT_INTERVAL  # seconds between two reports
    clock_tolerance: int = CLOCK_TOLERANCE  # ms by which a deferred command may be resubmitted early
    #: Seconds to wait for open transactions. The broker aborts the transaction of a killed owner after 20 s.
    transaction_timeout: float = 40.0


class VerificationResult(NamedTuple):
    """The result for one partition: a report, or the error that ends the job.

    `earlier_report` is the report in the verification checkpoint (`--incremental`). `restart_reason` is not empty if
    the partition was verified from its start although it had a verification checkpoint.
    """

    partition: int
    report: Report = Report()
    earlier_report: Report | None = None
    restart_reason: str = ""
    shard_comparison: ShardComparison | None = None
    error: CqrsError | None = None
    records: int = 0  # records read
    keys_partition: int = 0  # the partition of the keys topic that was read
