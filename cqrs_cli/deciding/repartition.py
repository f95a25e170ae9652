"""Letting an aggregate grow to more partitions, while it decides. The next run splits (`deciding.split`).

1. check    the number fits, and nobody decides who would not wait for a split
2. wish     in the lineage: read back, the log says which of two operators came first
3. grow     the topics, the commands last

Each step may be done again: the same call completes a growth that ended half-way.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from cqrs_cli import failpoints
from cqrs_cli.core.lineage import PartitionLineage, adopting_count
from cqrs_cli.core.messages.growth import Grow
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.deciding.plan import Plan, partition_seat
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.kafka.admin.growing import grow_topics, make_lineage
from cqrs_cli.kafka.admin.topics import Admin, find_with_extras
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.lineage_log import HIDDEN_PATIENCE, read_lineage, wish
from cqrs_cli.kafka.topics.acls import needs, refusal
from cqrs_cli.kafka.topics.checks import missing_topics
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Kind, Topics
from cqrs_cli.ownership.claim import TERMINAL, Claim
from cqrs_cli.ownership.standing import standings
from cqrs_cli.version import __version__


class AggregateStanding(NamedTuple):
    """An aggregate before it grows: what its topics have, its lineage, and the last claims of its partitions."""

    name: str
    has: Mapping[Kind, int]
    lineage: PartitionLineage
    has_lineage: bool
    claims: tuple[Claim, ...]


class PlannedGrowth(NamedTuple):
    """`before` equals `after` if the growth was wished before: it is completed. `lineage`: with this wish."""

    before: int
    after: int
    has_lineage: bool
    lineage: PartitionLineage


def plan_growth(standing: AggregateStanding, after: int, partitioner: Partitioner) -> PlannedGrowth:
    """The growth to `after` partitions; raises `UsageError` for a number that does not fit, `ConfigurationError` for an
    aggregate that cannot grow now.
    """
    name, lineage = standing.name, standing.lineage
    before, most = lineage.counts[-1], max(standing.has.values())
    there = adopting_count(before, most)
    least = max(there, 2 * before)
    others = f"take {least}, {least + before} or another multiple"
    if partitioner == "off":
        raise ConfigurationError(
            f'{name} cannot grow with partitioner = "off": nothing says whose a key is',
            'set partitioner to what the clients use: "murmur2" or "crc32"',
        )
    if after < most:
        adopting = f"; grown by hand, they are adopted by --partitions {there}" if most > before else ""
        raise UsageError(
            f"{name} has {most} partitions, and Kafka takes none away",
            f"fewer are a migration to new topics{adopting}",
        )
    if after != before and not lineage.follows(after):
        raise UsageError(
            f"{after} is no multiple of the {before} partitions of {name}: a key must move to a child of its home",
            others,
        )
    if after == before and not lineage.has_grown:
        raise UsageError(f"{name} has {before} partitions", others)
    _refuse_older(name, standing.claims)
    return PlannedGrowth(before, after, standing.has_lineage, lineage.with_record(Grow(before, after)))


def _refuse_older(name: str, claims: Iterable[Claim]) -> None:
    """An owner of an older version would begin with nothing where a child waits."""
    for claim in claims:
        if claim.lineage < 1 and claim.attempt != TERMINAL:
            raise ConfigurationError(
                f"run {claim.run} of {name} is of a version that knows of no growth",
                "start this version once, which takes over: cqrs run",
            )


def read_standing(connection: Cluster, topics: Topics) -> AggregateStanding:
    """The aggregate as it stands; raises `ConfigurationError` if a topic is missing."""
    with Admin(connection) as admin:
        found, extras = find_with_extras(admin, topics)
    if error := missing_topics(topics, found):
        raise error
    has = {kind: info.partitions for kind, info in found.items()}
    count = has["commands"]
    seats = {number: partition_seat(topics, number) for number in range(count)}
    claims = tuple(one.claim for one in standings(connection, seats).values() if one.claim is not None)
    if "lineage" in extras:
        known = read_lineage(connection, topics, count, HIDDEN_PATIENCE)
        if known.has_grown:
            return AggregateStanding(topics.aggregate, has, known, True, claims)
    before = min([count, *(claim.partitions for claim in claims)])  # what is more was added by hand
    return AggregateStanding(topics.aggregate, has, PartitionLineage((before,)), "lineage" in extras, claims)


def prepared(plan: Plan, aggregate: str, after: int) -> Plan:
    """The plan with the partitions that the only aggregate in it is to have, for shards that are made before it grows.

    Raises what `plan_growth` does.
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
    """Let an aggregate grow to `after` partitions, or complete what was begun. `say` hears of each step that is done.

    Raises what `plan_growth` does, `ConfigurationError` also if the user may not do all of it or another operator's
    wish came first, and `UnavailableError` if a step could not be done: the same call goes on from there.
    """
    with Admin(connection) as admin:
        if missing := admin.missing_acls(needs("repartition", topics)):
            raise refusal(missing, "repartition")
    planned = plan_growth(read_standing(connection, topics), after, partitioner)
    with Admin(connection) as admin:
        if not planned.has_lineage:
            make_lineage(admin, topics)
            failpoints.reached("grow.lineage")
            say(f"{topics.lineage} is there")
        if planned.before != after:
            lineage = wish(connection, topics, _grow(planned.before, after))
            if (last := lineage.counts[-1]) != after:
                raise ConfigurationError(
                    f"another operator came first: {topics.aggregate} grows to {last} partitions",
                    f"complete that: cqrs repartition {topics.aggregate} --partitions {last}",
                )
            planned = planned._replace(lineage=lineage)
            failpoints.reached("grow.wished")
            say(f"{topics.lineage} says {planned.before} → {after}")
        grow_topics(admin, topics, after, say)
    return planned


def _grow(before: int, after: int) -> Grow:
    by = f"cqrs {__version__} {socket.gethostname()} {os.getpid()}"
    return Grow(before, after, rfc3339(time.time_ns() // 1_000_000), by)
