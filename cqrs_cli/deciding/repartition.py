"""Raises an aggregate's number of partitions while it decides. The next run splits (`deciding.split`).

1. check    the number fits, and every active owner would wait for a split
2. request  write it to the partition history and read it back: the log decides between two operators
3. extend   the topics, the commands topic last

Each step may be repeated: the same call completes an interrupted repartitioning.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from cqrs_cli import failpoints
from cqrs_cli.core.lineage import PartitionLineage, count_covering
from cqrs_cli.core.messages.repartitioning import Grow
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.deciding.plan import Plan, partition_seat
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.kafka.admin.repartitioning import add_partitions, create_lineage_topic
from cqrs_cli.kafka.admin.topics import Admin, find_with_extras
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.lineage_log import HIDDEN_RECORD_TIMEOUT, read_lineage, request_repartitioning
from cqrs_cli.kafka.topics.acls import denied_acls, required_acls
from cqrs_cli.kafka.topics.checks import missing_topics
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Kind, Topics
from cqrs_cli.ownership.claim import TERMINAL, Claim
from cqrs_cli.ownership.committed_claims import committed_claims
from cqrs_cli.version import __version__


class AggregateStanding(NamedTuple):
    """An aggregate before its repartitioning: partition counts of its topics, history, and last claims."""

    name: str
    has: Mapping[Kind, int]
    lineage: PartitionLineage
    has_lineage: bool
    claims: tuple[Claim, ...]


class PlannedGrowth(NamedTuple):
    """A repartitioning. `before` equals `after` if it was requested earlier, and is completed now. `lineage`: the
    history with this request.
    """

    before: int
    after: int
    has_lineage: bool
    lineage: PartitionLineage


def plan_growth(standing: AggregateStanding, after: int, partitioner: Partitioner) -> PlannedGrowth:
    """Return the repartitioning to `after` partitions; raises `UsageError` for a number that does not fit,
    `ConfigurationError` for an aggregate that cannot be repartitioned now.
    """
    name, lineage = standing.name, standing.lineage
    before, most = lineage.counts[-1], max(standing.has.values())
    there = count_covering(before, most)
    least = max(there, 2 * before)
    others = f"take {least}, {least + before} or another multiple"
    if partitioner == "none":
        raise ConfigurationError(
            f'{name} cannot grow with partitioner = "none": nothing says whose a key is',
            'set partitioner to what the clients use: "murmur2" or "crc32"',
        )
    if after < most:
        adopting = f"; grown by hand, they are adopted by --partitions {there}" if most > before else ""
        raise UsageError(
            f"{name} has {most} partitions, and Kafka takes none away",
            f"fewer are a migration to new topics{adopting}",
        )
    if after != before and not lineage.is_valid_next_count(after):
        raise UsageError(
            f"{after} is no multiple of the {before} partitions of {name}: a key must move to a child of its home",
            others,
        )
    if after == before and not lineage.was_repartitioned:
        raise UsageError(f"{name} has {before} partitions", others)
    _refuse_older(name, standing.claims)
    return PlannedGrowth(before, after, standing.has_lineage, lineage.with_record(Grow(before, after)))


def _refuse_older(name: str, claims: Iterable[Claim]) -> None:
    """Refuse active owners of an older version: they would start a child with an empty state instead of waiting."""
    for claim in claims:
        if claim.lineage < 1 and claim.attempt != TERMINAL:
            raise ConfigurationError(
                f"run {claim.run} of {name} is of a version that knows of no growth",
                "start this version once, which takes over: cqrs run",
            )


def read_standing(connection: Cluster, topics: Topics) -> AggregateStanding:
    """Return the current state of an aggregate's partitions; raises `ConfigurationError` if a topic is missing."""
    with Admin(connection) as admin:
        found, extras = find_with_extras(admin, topics)
    if error := missing_topics(topics, found):
        raise error
    has = {kind: info.partitions for kind, info in found.items()}
    count = has["commands"]
    seats = {number: partition_seat(topics, number) for number in range(count)}
    claims = tuple(one.claim for one in committed_claims(connection, seats).values() if one.claim is not None)
    if "lineage" in extras:
        known = read_lineage(connection, topics, count, HIDDEN_RECORD_TIMEOUT)
        if known.was_repartitioned:
            return AggregateStanding(topics.aggregate, has, known, True, claims)
    before = min([count, *(claim.partitions for claim in claims)])  # further partitions were added by hand
    return AggregateStanding(topics.aggregate, has, PartitionLineage((before,)), "lineage" in extras, claims)


def prepared(plan: Plan, aggregate: str, after: int) -> Plan:
    """Return the plan with the future partitions of its only aggregate, for shards that are built before the
    repartitioning.

    Raises the errors of `plan_growth`.
    """
    described = plan.topics[aggregate]
    standing = read_standing(plan.connection, described.topics)
    planned = plan_growth(standing, after, plan.deciding.partitioner)
    return replace(
        plan,
        topics={aggregate: replace(described, partitions=after)},
        wished={aggregate: planned.lineage},
    )


def repartition(
    connection: Cluster,
    topics: Topics,
    after: int,
    partitioner: Partitioner,
    say: Callable[[str], object] = str,
) -> PlannedGrowth:
    """Raise an aggregate's number of partitions to `after`, or complete an interrupted repartitioning. `say` gets a
    text after each step.

    Raises the errors of `plan_growth`. Raises `ConfigurationError` also if the user lacks an ACL, or if another
    operator's request came first, and `UnavailableError` if a step failed: the same call continues from there.
    """
    with Admin(connection) as admin:
        if missing := admin.missing_acls(required_acls("repartition", topics)):
            raise denied_acls(missing, "repartition")
    planned = plan_growth(read_standing(connection, topics), after, partitioner)
    with Admin(connection) as admin:
        if not planned.has_lineage:
            create_lineage_topic(admin, topics)
            failpoints.reached("grow.lineage")
            say(f"{topics.lineage} is there")
        if planned.before != after:
            lineage = request_repartitioning(connection, topics, _grow(planned.before, after))
            if (last := lineage.counts[-1]) != after:
                raise ConfigurationError(
                    f"another operator came first: {topics.aggregate} grows to {last} partitions",
                    f"complete that: cqrs repartition {topics.aggregate} --partitions {last}",
                )
            planned = planned._replace(lineage=lineage)
            failpoints.reached("grow.wished")
            say(f"{topics.lineage} says {planned.before} → {after}")
        add_partitions(admin, topics, after, say)
    return planned


def _grow(before: int, after: int) -> Grow:
    by = f"cqrs {__version__} {socket.gethostname()} {os.getpid()}"
    return Grow(before, after, rfc3339(time.time_ns() // 1_000_000), by)
