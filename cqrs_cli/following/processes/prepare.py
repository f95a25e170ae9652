"""Creates the plan of a run of process managers from the settings, before Spark starts and before any fence."""

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cqrs_cli import registry
from cqrs_cli.deciding.position import check_offset_in_log
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.following.processes.plan import CommandsTopic, EventsTopic, ProcessPlan, Subscription
from cqrs_cli.following.processes.position import check_skip, position_error
from cqrs_cli.following.processes.positions import read_source_states
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.position_notation import parse_position
from cqrs_cli.kafka.topics.process_topics import ProcessTopics, denied_process_acls
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import MAX_MESSAGE_BYTES, Topics
from cqrs_cli.keyspace.key_space import visible_key_space
from cqrs_cli.ownership.claim import next_run_epoch
from cqrs_cli.ownership.timing import Timing

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings

#: Maximum bytes of one request, before compression.
_REQUEST_BYTES = 1_000_000


def prepare_processes(
    settings: "Settings",
    connection: Connection,
    loaded_processes: Mapping[str, LoadedProcess],
    *,
    once: bool = False,
    beginning: bool = False,
    skip: Iterable[str] = (),
    accept_loss: Iterable[str] = (),
) -> ProcessPlan:
    """Return the plan of a new run.

    Raises `ConfigurationError` for missing ACLs and topics, `UsageError` for an address (`PROCESS:AGG:P@OFFSET`) that
    is not in the run or that did not stop the process manager, `UnavailableError` without a broker.
    """
    subscriptions, events, commands, request_bytes, brokers = _describe_topics(
        settings, connection, loaded_processes
    )
    plan = ProcessPlan(
        connection,
        settings.topic_prefix,
        settings.aggregates,
        settings.root,
        settings.state_dir,
        settings.partitioner,
        subscriptions,
        events,
        commands,
        request_bytes,
        0,
        uuid.uuid4().hex[:12],
        beginning=beginning,
        skips=dict(_parse_addresses("--skip", skip, subscriptions)),
        losses=dict(_parse_addresses("--accept-loss", accept_loss, subscriptions)),
        brokers=brokers,
        timing=Timing(decide_timeout=settings.decide_timeout.total_seconds()),
    )
    states = read_source_states(plan)
    for subscription, offset in plan.skips.items():
        check_skip(states[subscription], offset)
    for subscription, offset in plan.losses.items():
        state = states[subscription]
        if position_error(state) is not None:
            check_offset_in_log(state.source.topic, state.source.partition, offset, state.start, state.end)
    claims = [state.position.claim if state.position else None for state in states.values()]
    return replace(
        plan,
        run_epoch=next_run_epoch(time.time_ns() // 1_000_000, claims),
        targets={subscription: state.stable for subscription, state in states.items()} if once else None,
    )


def _describe_topics(
    settings: "Settings", connection: Connection, loaded_processes: Mapping[str, LoadedProcess]
) -> tuple[list[Subscription], dict[str, EventsTopic], dict[str, CommandsTopic], int, int]:
    """Return subscriptions, events topics, commands topics, the maximum bytes of a request, and the broker count."""
    prefix = settings.topic_prefix
    sources = {
        process: {name: Topics(name, prefix).events for name in sorted(loaded_process.sources)}
        for process, loaded_process in loaded_processes.items()
    }
    command_targets = sorted(
        {name for loaded_process in loaded_processes.values() for name in loaded_process.command_targets}
    )
    with Admin(connection) as admin:
        for loaded_process in loaded_processes.values():
            if missing := admin.missing_acls(loaded_process.use(prefix).required_acls()):
                raise denied_process_acls(missing)
        aggregate_by_topic = {
            topic: name
            for topics_by_aggregate in sources.values()
            for name, topic in topics_by_aggregate.items()
        }
        events_topics = _describe_existing(admin, sorted(aggregate_by_topic))
        commands_topics = _describe_existing(
            admin, [Topics(name, prefix).commands for name in command_targets]
        )
        process_topics = [ProcessTopics(name, prefix) for name in loaded_processes]
        existing = admin.describe([topics.positions for topics in process_topics])
        for topics in process_topics:
            if (topic_error := topics.mistake(existing.get(topics.positions))) is not None:
                raise topic_error
        commands_topics |= _other_commands_topics(admin, settings, command_targets)
        brokers = admin.broker_count()
    partitioner = settings.partitioner
    key_spaces = {
        topic: visible_key_space(
            connection, Topics(aggregate_by_topic[topic], prefix), partitioner, info.partitions
        )
        for topic, info in events_topics.items()
    }
    subscriptions = [
        Subscription(process, EventPartition(name, topic, partition))
        for process, topics_by_aggregate in sources.items()
        for name, topic in topics_by_aggregate.items()
        for partition in range(events_topics[topic].partitions)
    ]
    limits = [info.number("max.message.bytes", MAX_MESSAGE_BYTES) for info in commands_topics.values()]
    return (
        subscriptions,
        {
            topic: EventsTopic(info.topic_id, info.partitions, key_spaces[topic])
            for topic, info in events_topics.items()
        },
        {
            topic.removeprefix(prefix).removesuffix(".commands"): CommandsTopic(topic, info.partitions)
            for topic, info in commands_topics.items()
        },
        min([_REQUEST_BYTES, *limits]),
        brokers,
    )


def _describe_existing(admin: Admin, topics: list[str]) -> dict[str, TopicInfo]:
    existing = admin.describe(topics)
    for topic in topics:
        if topic not in existing:
            raise ConfigurationError(f"topic {topic} does not exist", "create it: cqrs init")
    return existing


def _other_commands_topics(
    admin: Admin, settings: "Settings", command_targets: list[str]
) -> dict[str, TopicInfo]:
    """Return the commands topics of all other aggregates, which `react` may name without a literal."""
    names = set(registry.names(settings.aggregates, settings.root)) - set(command_targets)
    try:
        return admin.describe([Topics(name, settings.topic_prefix).commands for name in sorted(names)])
    except ConfigurationError:
        return {}  # an ACL is missing for one of these topics: a command for it causes an error when it is sent


def _parse_addresses(
    flag: str, texts: Iterable[str], subscriptions: list[Subscription]
) -> Iterator[tuple[Subscription, int]]:
    """Yield the subscription and the offset of each text; `checkout:order:3@7` is offset 7 of order's partition 3."""
    subscription_of = {subscription.address: subscription for subscription in subscriptions}
    for text in texts:
        address, position = text.rpartition("@")[0], parse_position(flag, text)
        if address not in subscription_of:
            raise UsageError(
                f"{flag}: {address!r} is not a subscription of this run",
                f"known: {', '.join(sorted(subscription_of)[:8])}",
            )
        yield subscription_of[address], position.offset
