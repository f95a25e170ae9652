"""The plan of a verification, which the driver sends to each task, and the result of a task."""

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
    #: The package of the aggregates. None: the code is missing, so only the JSON shape of events is checked.
    package: str | None
    root: Path  # folder of the package
    key_space: KeySpace
    dedup_window: int  # ms
    longest_window: int  # ms; the longest dedup window of any run
    shards_folder: Path | None = None  # the folder of the shards to compare with; None: compare no shard
    checkpoints: CheckpointFolders | None = None  # None without --incremental
    report_address: Address | None = None  # where tasks send progress reports
    report_interval: float = REPORT_INTERVAL  # seconds between two reports
    #: Milliseconds by which a deferred command may be resubmitted before it is due.
    clock_tolerance: int = CLOCK_TOLERANCE
    #: Seconds to wait for open transactions. The broker aborts the transaction of a killed owner after 20 s.
    transaction_timeout: float = 40.0


class VerificationResult(NamedTuple):
    """The result for one partition: a report, or the error that ends the job.

    `earlier_report` is the report in the earlier verification checkpoint (`--incremental`). `restart_reason`: why the
    partition was verified from its start although it had a verification checkpoint; else empty.
    """

    partition: int
    report: Report = Report()
    earlier_report: Report | None = None
    restart_reason: str = ""
    shard_comparison: ShardComparison | None = None
    error: CqrsError | None = None
    records: int = 0  # number of records that were read
    keys_partition: int = 0  # the partition of the keys topic that was read
