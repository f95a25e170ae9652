"""The driver of `cqrs verify`: checks the invariants of an aggregate's topics, with a Spark task for each partition."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.errors import UnavailableError
from cqrs_cli.jobs.engine.driver_address import driver_address
from cqrs_cli.jobs.engine.partition_job import raise_gravest, result_accumulator, run_job, run_on_workers
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.kafka.fault import RecordFault
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.proof.findings import MAX_LISTED, Report
from cqrs_cli.proof.fingerprints import FingerprintCheck, fingerprint_check_of, fits_without_code
from cqrs_cli.registry import load
from cqrs_cli.scans.verify.checkpoints import CheckpointScope
from cqrs_cli.scans.verify.forwarded import find_lost_commands
from cqrs_cli.scans.verify.plan import VerificationPlan, VerificationResult
from cqrs_cli.scans.verify.state import ShardComparison
from cqrs_cli.scans.verify.task import verify_partition
from cqrs_cli.telemetry.task_reports import JobProgress, MakeListener, TaskReports

if TYPE_CHECKING:
    from pyspark import SparkContext


class LocatedViolation(RecordFault):
    """A violation of an invariant, with its topic, partition and offset."""

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition} offset {self.offset} {self.what}"


class VerifySummary(NamedTuple):
    """The result of all partitions."""

    reports: dict[int, Report]  # partition → report
    violations: list[LocatedViolation]  # the first violations of each partition
    violation_count: int  # number of all violations
    comparisons: dict[int, ShardComparison]  # partition → comparison with its shard; empty unless requested
    seconds: float  # duration
    #: Partition → report of the earlier verification that is continued.
    earlier_reports: Mapping[int, Report] = {}
    #: Partition → the reason why it was verified from its beginning instead of continuing an earlier verification.
    restart_reasons: Mapping[int, str] = {}

    def total(self, name: str) -> int:
        """Return the sum over all reports of the attribute `name`, such as `commands`."""
        return sum(getattr(report, name) for report in self.reports.values())

    def new_total(self, name: str) -> int:
        """Return the part of `total(name)` that the earlier verification had not covered."""
        earlier_sum: int = sum(getattr(report, name) for report in self.earlier_reports.values())
        return self.total(name) - earlier_sum

    def deleted_total(self, kind: Kind) -> int:
        """Return the number of records in topics of this kind that retention is known to have deleted."""
        return sum(report.deleted.get(kind, 0) for report in self.reports.values())


def checkpoint_scope(plan: VerificationPlan) -> CheckpointScope:
    """Return the topics and settings that a verification covers."""
    aggregate_topics = plan.aggregate_topics
    return CheckpointScope(
        aggregate=aggregate_topics.topics.aggregate,
        cluster=aggregate_topics.cluster_id,
        topics={
            aggregate_topics.topics.name(kind): topic_id for kind, topic_id in aggregate_topics.ids.items()
        },
        partitions=aggregate_topics.partitions,
        partitioner=plan.key_space.partitioner,
        dedup_window=plan.dedup_window,
        longest_window=plan.longest_window,
        counts=plan.key_space.counts if plan.key_space.was_repartitioned else (),
    )


def verify_topics(
    context: "SparkContext",
    plan: VerificationPlan,
    show: Callable[[JobProgress], None] = lambda progress: None,
    make_listener: MakeListener = TaskReports,
) -> VerifySummary:
    """Verify every partition on Spark; `show` gets the progress several times a second. Raises the gravest error of the
    tasks.

    `make_listener` replaces the receiver of progress reports in tests.
    """
    results = result_accumulator(context, VerificationResult)
    started_at = time.monotonic()
    partitions = range(plan.aggregate_topics.partitions)
    with make_listener(driver_address(context), dict.fromkeys(partitions)) as reports:
        task = partial(_verify_task, replace(plan, report_address=reports.address))
        job = partial(run_on_workers, context, partitions, task, results)

        def show_progress(results: dict[int, VerificationResult]) -> None:
            show(reports.progress({partition: result.records for partition, result in results.items()}))

        results_by_partition = run_job(context, results, job, show_progress, partitions)
    return _summarize(plan, results_by_partition.values(), time.monotonic() - started_at)


def verify_in_process(plan: VerificationPlan) -> VerifySummary:
    """Verify without Spark, one partition after the other, in this process: for tests and small topics.

    `verify_in_process(plan_verify(connection, topics, settings)).violations` is empty when all is well.
    """
    started_at = time.monotonic()
    results = [verify_partition(plan, partition) for partition in range(plan.aggregate_topics.partitions)]
    raise_gravest(results)
    return _summarize(plan, results, time.monotonic() - started_at)


def _verify_task(plan: VerificationPlan, partition: int) -> VerificationResult:
    """Verify one partition on a Spark worker."""
    if plan.package is not None:
        plan = replace(plan, root=code_root(plan.package, plan.root))
    return verify_partition(plan, partition)


def _summarize(
    plan: VerificationPlan, results: Iterable[VerificationResult], seconds: float
) -> VerifySummary:
    results = list(results)
    topics, reports = plan.aggregate_topics.topics, {result.partition: result.report for result in results}
    log = PartitionLog(plan.connection, topics, 0)
    lost_commands = [
        LocatedViolation(topics.outcomes, "outcomes", *command)
        for command in find_lost_commands(
            log, reports, plan.clock_tolerance, partial(_fingerprint_check, plan)
        )
    ]
    violations = [
        LocatedViolation(
            topics.name(kind),
            kind,
            result.keys_partition if kind == "keys" else result.partition,
            offset,
            problem,
        )
        for result in results
        for kind, offset, problem in result.report.violations
    ]
    violation_count = sum(report.violation_count for report in reports.values()) + len(lost_commands)
    return VerifySummary(
        reports=reports,
        violations=violations + lost_commands[:MAX_LISTED],
        violation_count=_confirm_violations(plan, violation_count),
        comparisons={
            result.partition: result.shard_comparison
            for result in results
            if result.shard_comparison is not None
        },
        seconds=seconds,
        earlier_reports={
            result.partition: result.earlier_report for result in results if result.earlier_report is not None
        },
        restart_reasons={
            result.partition: result.restart_reason for result in results if result.restart_reason
        },
    )


def _fingerprint_check(plan: VerificationPlan) -> FingerprintCheck:
    """Return the check of commands' fingerprints. Without the aggregate's code it accepts any omitted member, because
    the member may be personal.
    """
    if plan.package is None:
        return fits_without_code
    return fingerprint_check_of(load(plan.aggregate_topics.topics.aggregate, plan.package, plan.root))


def _confirm_violations(plan: VerificationPlan, violations: int) -> int:
    """Return the number of violations. Raise `UnavailableError` if there are some and partitions have split since the
    plan: the split may have caused them.
    """
    aggregate = plan.aggregate_topics.topics.aggregate
    if violations and plan.read_key_space() != plan.key_space:
        raise UnavailableError(
            f"the partitions of {aggregate} have split since the verification began", "verify again"
        )
    return violations
