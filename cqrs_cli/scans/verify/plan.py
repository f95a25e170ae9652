"""The plan of a verification, which the driver sends to each task, and the result of a task."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.client.aggregate_logs import AggregateLogs, complete_key_space
from cqrs_cli.core.deferral.deferrals import CLOCK_TOLERANCE
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.admin.topics import Admin, check_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import denied_acls_error, required_acls
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.proof.findings import Report
from cqrs_cli.registry import load, names
from cqrs_cli.scans.verify.checkpoints import CheckpointFolders
from cqrs_cli.scans.verify.state import ShardComparison
from cqrs_cli.settings.durations import milliseconds
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import REPORT_INTERVAL

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class VerificationPlan(AggregateLogs):
    """The data that each task needs."""

    #: The package of the aggregates. None: the code is missing, so only the JSON shape of events is checked.
    package: str | None
    root: Path  # folder of the package
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


def plan_verify(
    connection: Connection,
    topics: Topics,
    settings: "Settings",
    shards_folder: Path | None = None,
    longest_window: timedelta | None = None,
) -> VerificationPlan:
    """Return the plan to verify all committed records, and to compare the shards in `shards_folder` if it is given.

    If the project has no aggregates, the events are verified without the aggregates' code.

    If runs had different dedup windows, `settings.dedup_window` must be the shortest and `longest_window` the longest;
    by default they are the same.

    Raises `ConfigurationError` for missing ACLs, and for topics that are missing or set up wrongly.
    """
    package = settings.aggregates if names(settings.aggregates, settings.root) else None
    personal = package is not None and load(topics.aggregate, package, settings.root).has_personal_fields
    with Admin(connection) as admin:
        if missing_acls := admin.missing_acls(required_acls("read", topics, personal)):
            raise denied_acls_error(missing_acls, "read")
        aggregate_topics = check_topics(admin, topics, TopicPlan(dedup_window=settings.dedup_window))
    return VerificationPlan(
        connection,
        aggregate_topics,
        complete_key_space(connection, aggregate_topics, settings.partitioner),
        package,
        settings.root,
        milliseconds(settings.dedup_window),
        milliseconds(longest_window or settings.dedup_window),
        shards_folder,
        clock_tolerance=milliseconds(settings.max_clock_skew),
    )
