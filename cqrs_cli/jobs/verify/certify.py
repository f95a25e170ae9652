"""The driver of `cqrs certificate`: reads and hashes an aggregate's topics on Spark, with a task for each partition,
and verifies no promise.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from msgspec import UNSET

from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.jobs.engine.driver_address import driver_address
from cqrs_cli.jobs.engine.partition_job import result_accumulator, run_job, run_on_workers
from cqrs_cli.kafka.admin.topics import Admin, find_with_extras
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.fault import RecordFault
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.checks import aggregate_topics, missing_topics_error
from cqrs_cli.kafka.topics.topics import KINDS, AggregateTopics, Kind, Topics
from cqrs_cli.proof.certificate import (
    STRETCH,
    Certificate,
    CertificateComparison,
    LogCertificate,
    LogHasher,
    Stretch,
    TopicCertificate,
    check_log,
)
from cqrs_cli.scans.guarded import guarded
from cqrs_cli.scans.log_progress import LogProgress
from cqrs_cli.scans.verify.lineage import (
    CertifiedLineage,
    certify_lineage,
    lineage_changes,
    repartitioning_change,
)
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import JobProgress, TaskReports

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class CertifyPlan:
    """The plan of a certificate, which every task gets."""

    connection: Connection
    aggregate_topics: AggregateTopics
    #: Kind of topic → the end offset of each partition in the earlier certificate; empty without one.
    cuts: Mapping[Kind, list[int]]
    lineage: CertifiedLineage | None = None  # the partition history of a repartitioned aggregate
    stretch_size: int = STRETCH  # number of offsets in a stretch, a range with one hash
    report_address: Address | None = None  # the address to which tasks send progress reports


class CertifiedPartition(NamedTuple):
    """The hashes of one partition's five logs, or the error that ends the job."""

    #: Kind of topic → the certificate of the partition's log. If the cut divides a stretch, also the part of this
    #: stretch before the cut, to compare it with the earlier certificate.
    logs: Mapping[Kind, tuple[LogCertificate, Stretch | None]] = {}
    error: CqrsError | None = None

    @property
    def records(self) -> int:
        """The number of committed records in the logs."""
        return sum(log.records for log, _ in self.logs.values())


class TopicChange(RecordFault):
    """A change of a topic's content since the earlier certificate, with its topic and partition."""

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition}: {self.what}"


class LineageChange(TopicChange):
    """A change of the partition history since the earlier certificate. The hint names no command, because `cqrs tail`
    does not read the topic of the history.
    """

    def error(self, problem: str, aggregate: str) -> ContradictionError:
        return ContradictionError(problem, f"only cqrs may write to {self.topic}: restore the topic")


class CertificateResult(NamedTuple):
    """The new certificate, and the comparison with the earlier one. Without an earlier certificate, `changes` is empty
    and the counts are 0.
    """

    certificate: Certificate
    changes: list[TopicChange]
    checked_count: int  # number of records that are as in the earlier certificate
    # Topic → number of records that could not be compared, because retention has deleted a part of their stretch.
    deleted_counts: dict[str, int]
    seconds: float

    @property
    def records(self) -> int:
        """The number of committed records in the topics now."""
        return sum(log.records for topic in self.certificate.topics.values() for log in topic.partitions)


def plan_certify(
    connection: Connection, topics: Topics, earlier_certificate: Certificate | None = None
) -> CertifyPlan:
    """Return the plan of a certificate of all committed records.

    Raises `ConfigurationError` for missing topics.
    """
    with Admin(connection) as admin:
        topic_infos, extras = find_with_extras(admin, topics)
        if (error := missing_topics_error(topics, topic_infos)) is not None:
            raise error
        described_topics = aggregate_topics(topics, admin.cluster_id(), topic_infos, extras)
    cuts: dict[Kind, list[int]] = {
        kind: [log.end for log in earlier_certificate.topics[topics.name(kind)].partitions]
        for kind in KINDS
        if earlier_certificate
    }
    return CertifyPlan(
        connection, described_topics, cuts, certify_lineage(connection, described_topics, earlier_certificate)
    )


def certify_topics(
    context: "SparkContext",
    plan: CertifyPlan,
    earlier_certificate: Certificate | None = None,
    show: Callable[[JobProgress], None] = lambda progress: None,
) -> CertificateResult:
    """Read and hash every partition, and compare with the earlier certificate. `show` gets the progress several times a
    second. Raises the gravest error of the tasks.
    """
    results = result_accumulator(context, CertifiedPartition)
    started_at, partitions = time.monotonic(), range(plan.aggregate_topics.partitions)
    with TaskReports(driver_address(context), dict.fromkeys(partitions)) as reports:
        task = partial(certify_partition, replace(plan, report_address=reports.address))

        def show_progress(results: dict[int, CertifiedPartition]) -> None:
            show(reports.progress({partition: result.records for partition, result in results.items()}))

        results_by_partition = run_job(
            context,
            results,
            partial(run_on_workers, context, partitions, task, results),
            show_progress,
            partitions,
        )
    return compare_all(
        plan, results_by_partition.values(), earlier_certificate, time.monotonic() - started_at
    )


def certify_partition(plan: CertifyPlan, partition: int) -> CertifiedPartition:
    """Hash one partition on a Spark worker. Raises nothing: an error is a value, so Spark sees no failed task."""
    log = PartitionLog(plan.connection, plan.aggregate_topics.topics, partition)

    def work() -> CertifiedPartition:
        bounds = {kind: log.bounds(kind) for kind in KINDS}
        with closing(LogProgress(plan.report_address, partition)) as progress:
            progress.start(sum(end - start for start, end in bounds.values()))
            return CertifiedPartition(
                {kind: _hash_log(plan, log, kind, bounds[kind], progress) for kind in KINDS}
            )

    return guarded(
        plan.connection, log.log_name("commands"), work, lambda error: CertifiedPartition(error=error)
    )


def _hash_log(
    plan: CertifyPlan, log: PartitionLog, kind: Kind, bounds: tuple[int, int], progress: LogProgress
) -> tuple[LogCertificate, Stretch | None]:
    cuts = plan.cuts.get(kind, [])
    hasher = LogHasher(cuts[log.partition] if log.partition < len(cuts) else None, plan.stretch_size)
    start, end = bounds
    for records in progress.track(log.read(kind, start, end), start, end):
        hasher.hash_records(records)
    return hasher.finish(start, end)


def compare_all(
    plan: CertifyPlan,
    results: Iterable[CertifiedPartition],
    earlier_certificate: Certificate | None,
    seconds: float,
) -> CertificateResult:
    """Combine the results of all partitions, in the order of partitions, to a certificate, and compare it with the
    earlier certificate.

    `seconds`: the duration so far.
    """
    partition_logs, current_topics = [result.logs for result in results], plan.aggregate_topics
    topics, changes, checked_count = {}, list[TopicChange](), 0
    deleted_counts: dict[str, int] = {}
    for kind in KINDS:
        name = current_topics.topics.name(kind)
        topics[name] = TopicCertificate(current_topics.ids[kind], [log[kind][0] for log in partition_logs])
        if earlier_certificate is None:
            continue
        earlier_topic = earlier_certificate.topics[name]
        if earlier_topic.id != current_topics.ids[kind]:
            text = f"was recreated: the certificate covers topic id {earlier_topic.id}"
            changes.append(TopicChange(name, kind, 0, 0, text))
        for partition, log in enumerate(earlier_topic.partitions):
            comparison = _compare_log(plan, log, partition_logs, partition, kind)
            changes += [TopicChange(name, kind, partition, *change) for change in comparison.changes]
            checked_count += comparison.unchanged_count
            if comparison.deleted_count:
                deleted_counts[name] = deleted_counts.get(name, 0) + comparison.deleted_count
            if comparison.deleted_count and kind == "events":
                start = partition_logs[partition][kind][0].start
                changes.append(
                    TopicChange(name, kind, partition, start, f"begins at {start}: events were deleted")
                )
    if earlier_certificate is not None:
        changes += _repartitioning_changes(plan, earlier_certificate)
    certificate = Certificate(
        aggregate=current_topics.topics.aggregate,
        cluster=current_topics.cluster_id,
        made=rfc3339(time.time_ns() // 1_000_000),
        topics=topics,
        lineage=UNSET if plan.lineage is None else plan.lineage.certificate,
    )
    return CertificateResult(certificate, changes, checked_count, deleted_counts, seconds)


def _compare_log(
    plan: CertifyPlan,
    earlier_log: LogCertificate,
    partition_logs: list[Mapping[Kind, tuple[LogCertificate, Stretch | None]]],
    partition: int,
    kind: Kind,
) -> CertificateComparison:
    """Compare the log of one partition with its earlier certificate; a partition that is gone counts as empty."""
    current_log, stretch_to_cut = (
        partition_logs[partition][kind]
        if partition < len(partition_logs)
        else (LogCertificate(0, 0, []), None)
    )
    return check_log(earlier_log, current_log, stretch_to_cut, plan.stretch_size)


def _repartitioning_changes(plan: CertifyPlan, earlier_certificate: Certificate) -> list[TopicChange]:
    """Return the changes since the earlier certificate in the number of partitions, and in the partition history."""
    topics, count = plan.aggregate_topics.topics, plan.aggregate_topics.partitions
    earlier_count = len(earlier_certificate.topics[topics.commands].partitions)
    change = repartitioning_change(earlier_count, count, plan.lineage)
    changes = [] if change is None else [TopicChange(topics.commands, "commands", earlier_count, *change)]
    history_changes = lineage_changes(earlier_certificate, plan.lineage)
    return changes + [LineageChange(topics.lineage, "commands", 0, *change) for change in history_changes]
