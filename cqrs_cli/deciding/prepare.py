"""Creates the plan of a run from the settings, before Spark starts."""

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.plan import Partition, Plan, partition_claim_slot
from cqrs_cli.deciding.position import check_offset_in_log
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.kafka.admin.topics import Admin, check_topics, find_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.position_notation import parse_position
from cqrs_cli.kafka.readers import bounds
from cqrs_cli.kafka.topics.acls import denied_acls_error, required_acls
from cqrs_cli.kafka.topics.count_errors import partition_count_error
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.kafka.topics.topics import AggregateTopics, TopicPlan, Topics
from cqrs_cli.keyspace.planned_key_space import PlannedKeySpace, plan_key_space
from cqrs_cli.ownership.claim import Claim, next_run_epoch
from cqrs_cli.ownership.committed_claims import committed_claims
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.system.concurrent_calls import WORKERS
from cqrs_cli.system.limits import BASE_BYTES, DESCRIPTORS_PER_BROKER, Needs, owner_needs, raise_soft_limits

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


def prepare(
    settings: "Settings",
    connection: Connection,
    aggregates: Mapping[str, Aggregate],
    *,
    once: bool = False,
    standby: bool = False,
    accept_loss: Iterable[str] = (),
    fail: Iterable[str] = (),
) -> Plan:
    """Return the plan of a new run. Raises `ConfigurationError` for missing ACLs and for missing or misconfigured
    topics, `UsageError` for an offset in `accept_loss` or `fail` (`AGG:P@OFFSET`) that is not in a log of the run,
    `UnavailableError` without a broker.
    """
    for name, aggregate in aggregates.items():
        if aggregate.has_personal_fields:
            connection.require_keyring(name)
    loss_offsets = dict(_parse_positions("--accept-loss", accept_loss, aggregates))
    force_failed: dict[Partition, frozenset[int]] = {}
    for partition, offset in _parse_positions("--fail", fail, aggregates):
        force_failed[partition] = force_failed.get(partition, frozenset()) | {offset}
    topics, brokers = _describe_topics(settings, connection, aggregates)
    _raise_limits(len(topics), brokers)
    _check_partitions(topics, [*loss_offsets, *force_failed])
    claims = _committed_claims(connection, topics)
    key_spaces: dict[str, PlannedKeySpace] = {}
    for name, aggregate_topics in topics.items():
        key_spaces[name] = plan_key_space(connection, aggregate_topics, settings.partitioner)
        if not key_spaces[name].was_repartitioned:
            _check_counts(
                aggregate_topics,
                [claim for partition, claim in claims.items() if partition.aggregate == name],
            )
    _check_offsets(connection, topics, loss_offsets, force_failed, claims)
    return Plan(
        connection,
        topics,
        key_spaces,
        settings.aggregates,
        settings.root,
        DecisionSettings.of(settings),
        settings.state_dir,
        next_run_epoch(time.time_ns() // 1_000_000, list(claims.values())),
        uuid.uuid4().hex[:12],
        end_offsets=_end_offsets(connection, topics) if once else None,
        accept_loss=loss_offsets,
        force_failed=force_failed,
        cache_bytes=int(settings.state_cache),
        store=settings.store,
        store_limit=int(settings.store_limit),
        checkpoints=settings.checkpoint_location or "",
        checkpoint_every=settings.checkpoint_every.total_seconds(),
        checkpoints_kept=settings.checkpoints_kept,
        brokers=brokers,
        timing=_timing(settings, standby),
    )


def _check_counts(aggregate_topics: AggregateTopics, claims: Iterable[Claim | None]) -> None:
    """Raise `ConfigurationError` if partitions were added by hand: the claims contain another partition count. The
    owner of an added partition cannot check this itself, because its partition has no claim yet.
    """
    for claim in claims:
        if claim is not None and claim.partitions != aggregate_topics.partitions:
            names = aggregate_topics.topics
            raise partition_count_error(
                names.aggregate, names.commands, claim.partitions, aggregate_topics.partitions
            )


def _committed_claims(
    connection: Connection, topics: Mapping[str, AggregateTopics]
) -> dict[Partition, Claim | None]:
    claim_slots = {
        Partition(name, number): partition_claim_slot(aggregate_topics.topics, number)
        for name, aggregate_topics in topics.items()
        for number in range(aggregate_topics.partitions)
    }
    return {
        partition: committed.claim
        for partition, committed in committed_claims(connection, claim_slots).items()
    }


def _timing(settings: "Settings", standby: bool) -> Timing:
    standby_timeout = settings.standby_timeout.total_seconds()
    return Timing(
        decide_timeout=settings.decide_timeout.total_seconds(),
        standby_timeout=standby_timeout if standby else None,
        heartbeat_timeout=min(standby_timeout, Timing().heartbeat_timeout),
    )


def aggregates_without_topics(
    settings: "Settings", connection: Connection, aggregates: Iterable[str]
) -> list[str]:
    """Return the aggregates that have no topics yet, such as the aggregate of a new file; empty if no aggregate has
    topics.

    Raises `UnavailableError` without a broker. Empty also for a user who may not list topics: then `prepare` names the
    missing ACL.
    """
    names = list(aggregates)
    try:
        with Admin(connection) as admin:
            missing = [name for name in names if not find_topics(admin, Topics(name, settings.topic_prefix))]
    except ConfigurationError:
        return []
    return missing if len(missing) < len(names) else []


def _raise_limits(aggregate_count: int, brokers: int) -> None:
    """Raise this process's limits: the driver retires several partitions at once, and reads each group's claims."""
    retire_descriptors = owner_needs(WORKERS, brokers).descriptors
    read_descriptors = aggregate_count * DESCRIPTORS_PER_BROKER * brokers
    raise_soft_limits(Needs(retire_descriptors + read_descriptors, BASE_BYTES), "the driver of a run")


def _describe_topics(
    settings: "Settings", connection: Connection, aggregates: Mapping[str, Aggregate]
) -> tuple[dict[str, AggregateTopics], int]:
    """Return the topics of each aggregate, and the number of brokers."""
    topics: dict[str, AggregateTopics] = {}
    with Admin(connection) as admin:
        for name, aggregate in aggregates.items():
            names, personal = Topics(name, settings.topic_prefix), aggregate.has_personal_fields
            if missing := admin.missing_acls(required_acls("run", names, personal)):
                raise denied_acls_error(missing, "run")
            topic_plan = TopicPlan(dedup_window=settings.dedup_window, personal=personal)
            topics[name] = check_topics(admin, names, topic_plan)
        return topics, admin.broker_count()


def _check_partitions(topics: Mapping[str, AggregateTopics], partitions: Iterable[Partition]) -> None:
    """Raise `UsageError` for a partition that does not exist."""
    for name, number in partitions:
        count = topics[name].partitions
        if number >= count:
            raise UsageError(f"{name} has no partition {number}", f"name a partition from 0 to {count - 1}")


def _check_offsets(
    connection: Connection,
    topics: Mapping[str, AggregateTopics],
    loss_offsets: Mapping[Partition, int],
    force_failed: Mapping[Partition, frozenset[int]],
    claims: Mapping[Partition, Claim | None],
) -> None:
    """Check the operator's offsets before any owner is fenced, because a typing error must not end the active run. An
    `--accept-loss` offset that was accepted before is valid, even if retention has deleted its record.
    """
    for partition in sorted({*loss_offsets, *force_failed}):
        topic, number = topics[partition.aggregate].topics.commands, partition.number
        start, end = bounds(connection, topic, [number], "read_uncommitted")[number]
        accepted_offset = loss_offsets.get(partition)
        failed_offsets = force_failed.get(partition, frozenset())
        claim = claims[partition]
        was_applied = (
            claim is not None and claim.accepted is not None and claim.accepted.offset == accepted_offset
        )
        if accepted_offset is not None and not was_applied:
            check_offset_in_log(topic, number, accepted_offset, start, end)
        if failed_offsets and max(failed_offsets) >= end:
            raise UsageError(
                f"{topic} partition {number} has no command at offset {max(failed_offsets)}",
                f"the log ends at {end}: name an earlier offset",
            )


def _end_offsets(connection: Connection, topics: Mapping[str, AggregateTopics]) -> dict[Partition, int]:
    """Return the final offsets of `--once`: the current high watermarks of the commands.

    If a client's open transaction hides an acknowledged command below the high watermark, the run waits for the end of
    the transaction.
    """
    return {
        Partition(name, partition): end
        for name, aggregate_topics in topics.items()
        for partition, (_, end) in bounds(
            connection,
            aggregate_topics.topics.commands,
            range(aggregate_topics.partitions),
            "read_uncommitted",
        ).items()
    }


def _parse_positions(
    flag: str, texts: Iterable[str], aggregates: Iterable[str]
) -> Iterable[tuple[Partition, int]]:
    """Parse texts of the form `AGG:P@OFFSET`; raises `UsageError`."""
    for text in texts:
        position = parse_position(flag, text)
        if position.process:
            raise UsageError(
                f"{flag}: {text!r} is a position of a process manager", "write AGGREGATE:PARTITION@OFFSET"
            )
        if position.aggregate not in aggregates:
            raise UsageError(
                f"{position.aggregate!r} is not among the aggregates of this run",
                f"name one of: {', '.join(aggregates)}",
            )
        yield Partition(position.aggregate, position.partition), position.offset
