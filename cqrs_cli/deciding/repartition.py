"""Raises an aggregate's number of partitions while a run decides. The next run splits them (`deciding.split`).

1. check    the number is valid, and every active owner can split
2. request  write the request to the partition history and read it back: of two operators, the first in the log wins
3. extend   add partitions to the topics, to the commands topic last

Each step may be repeated: the same call completes an interrupted repartitioning.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.deciding.plan import Plan, partition_claim_slot
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.kafka.admin.topics import Admin, find_with_extras
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.topics.acls import denied_acls_error, required_acls
from cqrs_cli.kafka.topics.checks import missing_topics_error
from cqrs_cli.kafka.topics.count_errors import count_covering
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Kind, Topics
from cqrs_cli.keyspace.added_partitions import add_partitions, create_lineage_topic
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.lineage_log import HIDDEN_RECORD_TIMEOUT, read_lineage, request_repartitioning
from cqrs_cli.keyspace.planned_key_space import PlannedKeySpace
from cqrs_cli.keyspace.records import Grow
from cqrs_cli.observer import reached
from cqrs_cli.ownership.claim import TERMINAL, Claim
from cqrs_cli.ownership.committed_claims import committed_claims
from cqrs_cli.version import __version__


class AggregatePartitions(NamedTuple):
    """An aggregate before its repartitioning."""

    name: str
    partition_counts: Mapping[Kind, int]  # the number of partitions of each topic
    lineage: PartitionLineage
    has_lineage: bool  # the lineage topic exists
    claims: tuple[Claim, ...]  # the committed claims


class PlannedRepartitioning(NamedTuple):
    """A repartitioning from `before` to `after` partitions. The two numbers are equal if the partition history already
    contains the request, and only the topics have to be extended. `key_space`: the key space that includes the request.
    """

    before: int
    after: int
    has_lineage: bool  # the lineage topic exists already
    key_space: KeySpace


def plan_repartitioning(
    current: AggregatePartitions, target_count: int, partitioner: Partitioner
) -> PlannedRepartitioning:
    """Return the repartitioning to `target_count` partitions; raises `UsageError` for an invalid number,
    `ConfigurationError` for an aggregate that cannot be repartitioned now.
    """
    name, lineage = current.name, current.lineage
    before, largest_count = lineage.counts[-1], max(current.partition_counts.values())
    covering_count = count_covering(before, largest_count)
    smallest_count = max(covering_count, 2 * before)
    valid_counts = f"choose {smallest_count}, {smallest_count + before} or a greater multiple of {before}"
    if partitioner == "none":
        raise ConfigurationError(
            f'{name} cannot be repartitioned with partitioner = "none": the partition of a key is unknown',
            'set partitioner to what the clients use: "murmur2" or "crc32"',
        )
    if target_count < largest_count:
        recording_hint = (
            f"; to record partitions that were added by hand: --partitions {covering_count}"
            if largest_count > before
            else ""
        )
        raise UsageError(
            f"{name} has {largest_count} partitions, and Kafka cannot remove partitions",
            f"fewer partitions need a migration to new topics{recording_hint}",
        )
    if target_count != before and not lineage.is_valid_next_count(target_count):
        raise UsageError(
            f"{target_count} is not a multiple of the {before} partitions of {name}: "
            "a key may move only to a child of its partition",
            valid_counts,
        )
    if target_count == before and not lineage.was_repartitioned:
        raise UsageError(f"{name} already has {before} partitions", valid_counts)
    _check_claim_versions(name, current.claims)
    key_space = KeySpace(lineage.with_record(Grow(before, target_count)), partitioner)
    return PlannedRepartitioning(before, target_count, current.has_lineage, key_space)


def _check_claim_versions(name: str, claims: Iterable[Claim]) -> None:
    """Raise `ConfigurationError` for active owners of an older version: they would start a child with an empty state,
    instead of waiting for the split.
    """
    for claim in claims:
        if claim.lineage < 1 and claim.attempt != TERMINAL:
            raise ConfigurationError(
                f"run {claim.run} of {name} uses a version of cqrs without repartitioning",
                "start this version once, so that it takes over: cqrs run",
            )


def read_partitions(connection: Cluster, topics: Topics) -> AggregatePartitions:
    """Return the current state of an aggregate's partitions; raises `ConfigurationError` if a topic is missing."""
    with Admin(connection) as admin:
        topic_infos, extras = find_with_extras(admin, topics)
    if error := missing_topics_error(topics, topic_infos):
        raise error
    partition_counts = {kind: info.partitions for kind, info in topic_infos.items()}
    count = partition_counts["commands"]
    claim_slots = {number: partition_claim_slot(topics, number) for number in range(count)}
    claims = tuple(
        committed.claim
        for committed in committed_claims(connection, claim_slots).values()
        if committed.claim is not None
    )
    if "lineage" in extras:
        lineage = read_lineage(connection, topics, count, HIDDEN_RECORD_TIMEOUT)
        if lineage.was_repartitioned:
            return AggregatePartitions(topics.aggregate, partition_counts, lineage, True, claims)
    # The smallest count is the original count: a topic with more partitions was extended by hand.
    before = min([*partition_counts.values(), *(claim.partitions for claim in claims)])
    return AggregatePartitions(
        topics.aggregate, partition_counts, PartitionLineage((before,)), "lineage" in extras, claims
    )


def plan_with_future_partitions(plan: Plan, aggregate: str, target_count: int) -> Plan:
    """Return the plan with the future partitions of its only aggregate, for shards that are built before the
    repartitioning.

    Raises the errors of `plan_repartitioning`.
    """
    aggregate_topics = plan.topics[aggregate]
    current = read_partitions(plan.connection, aggregate_topics.topics)
    planned = plan_repartitioning(current, target_count, plan.deciding.partitioner)
    return replace(
        plan,
        topics={aggregate: replace(aggregate_topics, partitions=target_count)},
        key_spaces={
            aggregate: PlannedKeySpace(
                aggregate_topics.topics, plan.deciding.partitioner, target_count, planned.key_space.lineage
            )
        },
    )


def repartition(
    connection: Cluster,
    topics: Topics,
    target_count: int,
    partitioner: Partitioner,
    report: Callable[[str], object] = str,
) -> PlannedRepartitioning:
    """Raise an aggregate's number of partitions to `target_count`, or complete an interrupted repartitioning. `report`
    gets a text after each step.

    Raises the errors of `plan_repartitioning`. Raises `ConfigurationError` also if the user lacks an ACL, or if another
    operator's request came first, and `UnavailableError` if a step failed: the same call continues from there.
    """
    with Admin(connection) as admin:
        if missing_acls := admin.missing_acls(required_acls("repartition", topics)):
            raise denied_acls_error(missing_acls, "repartition")
    planned = plan_repartitioning(read_partitions(connection, topics), target_count, partitioner)
    with Admin(connection) as admin:
        if not planned.has_lineage:
            create_lineage_topic(admin, topics)
            reached("repartition.history")
            report(f"{topics.lineage} exists")
        if planned.before != target_count:
            lineage = request_repartitioning(connection, topics, _request(planned.before, target_count))
            if (requested_count := lineage.counts[-1]) != target_count:
                raise ConfigurationError(
                    f"another operator already repartitions {topics.aggregate} to {requested_count} partitions",
                    f"complete that repartitioning: cqrs repartition {topics.aggregate} --partitions {requested_count}",
                )
            planned = planned._replace(key_space=KeySpace(lineage, partitioner))
            reached("repartition.requested")
            report(f"{topics.lineage} contains the request {planned.before} → {target_count}")
        add_partitions(admin, topics, target_count, report)
    return planned


def _request(before: int, after: int) -> Grow:
    requested_by = f"cqrs {__version__} {socket.gethostname()} {os.getpid()}"
    return Grow(before, after, rfc3339(time.time_ns() // 1_000_000), requested_by)
