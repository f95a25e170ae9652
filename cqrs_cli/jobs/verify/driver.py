"""The driver of `cqrs verify`: the invariants of an aggregate's topics, proved on Spark, a task a partition."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.jobs.engine.partition_job import collector, finish
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.jobs.replay.shards import Shards
from cqrs_cli.jobs.verify.state import Compared
from cqrs_cli.jobs.verify.task import ProofPlan, Share, prove_partition
from cqrs_cli.kafka.admin.topics import Admin, check_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import needs, refusal
from cqrs_cli.kafka.topics.topics import Kind, TopicPlan, Topics
from cqrs_cli.proof.partition import Report
from cqrs_cli.settings.durations import milliseconds

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

    from cqrs_cli.settings.settings import Settings


class Found(NamedTuple):
    """A violation with its place."""

    topic: str
    kind: Kind
    partition: int
    offset: int
    what: str

    def __str__(self) -> str:
        return f"{self.topic} partition {self.partition} offset {self.offset} {self.what}"


class Verified(NamedTuple):
    """All partitions together. `compared`: partition → what came of its shard, if that was asked for."""

    reports: dict[int, Report]
    violations: list[Found]
    violation_count: int
    compared: dict[int, Compared]
    seconds: float

    def total(self, name: str) -> int:
        """A number of the reports, summed."""
        return sum(getattr(report, name) for report in self.reports.values())

    def deleted(self, kind: Kind) -> int:
        """How many records of a kind retention is known to have deleted."""
        return sum(report.deleted.get(kind, 0) for report in self.reports.values())


def plan(
    connection: Connection,
    topics: Topics,
    settings: "Settings",
    shards: Shards | None = None,
    longest_window: timedelta | None = None,
) -> ProofPlan:
    """A proof of what is committed, and of `shards` if they are given. Where `dedup_window` was changed, the settings
    say the shortest there ever was, and `longest_window` the longest.

    Raises `ConfigurationError` for missing ACLs and topics, and such as are set up wrongly.
    """
    with Admin(connection) as admin:
        if missing := admin.missing_acls(needs("read", topics)):
            raise refusal(missing, "read")
        found = check_topics(admin, topics, TopicPlan(dedup_window=settings.dedup_window))
    return ProofPlan(
        connection,
        topics,
        settings.aggregates,
        settings.root,
        dict(found.ids),
        found.partitions,
        settings.partitioner,
        milliseconds(settings.dedup_window),
        milliseconds(longest_window or settings.dedup_window),
        shards,
    )


def verify(
    context: "SparkContext", plan: ProofPlan, watch: Callable[[float], None] = lambda part: None
) -> Verified:
    """Prove every partition; `watch` hears which part of them is done. Raises the gravest error of the tasks."""
    shares = collector(context, Share)
    began = time.monotonic()

    def job() -> None:
        numbers = context.parallelize(range(plan.partitions), plan.partitions)
        numbers.foreach(partial(_share, plan, shares))

    done = finish(context, shares, job, lambda come: watch(len(come) / plan.partitions))
    return _together(plan, done.values(), time.monotonic() - began)


def verify_here(plan: ProofPlan) -> Verified:
    """The same without Spark, one partition after the other, in this process: for tests and small topics.

    `verify_here(plan(connection, topics, settings)).violations` is empty when all is well.
    """
    began = time.monotonic()
    shares = [prove_partition(plan, partition) for partition in range(plan.partitions)]
    errors = [share.error for share in shares if share.error is not None]
    if errors:
        raise max(errors, key=lambda error: error.exit_code)
    return _together(plan, shares, time.monotonic() - began)


def _share(plan: ProofPlan, shares: "Accumulator[dict[int, Share]]", partition: int) -> None:
    """What Spark runs on a worker."""
    plan = replace(plan, root=code_root(plan.package, plan.root))
    shares.add({partition: prove_partition(plan, partition)})


def _together(plan: ProofPlan, shares: Iterable[Share], seconds: float) -> Verified:
    shares = list(shares)
    violations = [
        Found(plan.topics.name(kind), kind, share.partition, offset, what)
        for share in shares
        for kind, offset, what in share.report.violations
    ]
    return Verified(
        {share.partition: share.report for share in shares},
        violations,
        sum(share.report.violation_count for share in shares),
        {share.partition: share.compared for share in shares if share.compared is not None},
        seconds,
    )
