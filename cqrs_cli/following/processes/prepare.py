"""Creates the plan of a run of process managers from the settings, before Spark starts and before any fence."""

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from cqrs_cli import registry
from cqrs_cli.deciding.position import check_offset_in_log
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.following.plan import EventsTopic, describe_events_topics, describe_existing, event_partitions
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.following.processes.plan import OutputTopic, ProcessPlan, Subscription
from cqrs_cli.following.processes.position import check_skip, position_error
from cqrs_cli.following.processes.positions import read_source_states
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.position_notation import parse_position
from cqrs_cli.kafka.topics.process_topics import ProcessTopics, denied_process_acls_error
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import MAX_MESSAGE_BYTES, Topics
from cqrs_cli.ownership.claim import next_run_epoch
from cqrs_cli.ownership.timing import Timing

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings

#: Maximum bytes of one produce request, before compression.
_REQUEST_BYTES = 1_000_000


def prepare_processes(
    settings: "Settings",
    connection: Connection,
    loaded_processes: Mapping[str, LoadedProcess],
    *,
    once: bool = False,
    from_beginning: bool = False,
    skip: Iterable[str] = (),
    actor: str = "",
    accept_loss: Iterable[str] = (),
) -> ProcessPlan:
    """Return the plan of a new run.

    `skip`, `accept_loss`: addresses `PROCESS:AGGREGATE:PARTITION@OFFSET`. Raises `ConfigurationError` for missing ACLs
    and topics; `UsageError` for an address that is not in the run, or for an event to skip that did not stop the
    process manager; `UnavailableError` if no broker responds.
    """
    subscriptions, events_topics, outputs, request_bytes, brokers = _describe_topics(
        settings, connection, loaded_processes
    )
    plan = ProcessPlan(
        connection,
        settings.aggregates,
        settings.root,
        settings.partitioner,
        events_topics,
        settings.topic_prefix,
        settings.state_dir,
        subscriptions,
        outputs,
        request_bytes,
        0,
        uuid.uuid4().hex[:12],
        from_beginning=from_beginning,
        skips=dict(_parse_addresses("--skip", skip, subscriptions)),
        actor=actor,
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
            check_offset_in_log(
                state.source.topic, state.source.partition, offset, state.log_start, state.log_end
            )
    claims = [state.position.claim if state.position else None for state in states.values()]
    return replace(
        plan,
        run_epoch=next_run_epoch(time.time_ns() // 1_000_000, claims),
        end_offsets={subscription: state.stable_end for subscription, state in states.items()}
        if once
        else None,
    )


def _describe_topics(
    settings: "Settings", connection: Connection, loaded_processes: Mapping[str, LoadedProcess]
) -> tuple[list[Subscription], dict[str, EventsTopic], dict[str, OutputTopic], int, int]:
    """Return (subscriptions, events topics, output topics, maximum bytes of a produce request, broker count)."""
    prefix = settings.topic_prefix
    sources = {
        name: [Topics(aggregate, prefix) for aggregate in sorted(loaded_process.sources)]
        for name, loaded_process in loaded_processes.items()
    }
    output_topics = {
        topic for loaded_process in loaded_processes.values() for topic in loaded_process.output_topics
    }
    with Admin(connection) as admin:
        for loaded_process in loaded_processes.values():
            if missing := admin.missing_acls(loaded_process.topic_access(prefix).required_acls()):
                raise denied_process_acls_error(missing)
        events_topics = describe_events_topics(
            admin, connection, settings.partitioner, chain(*sources.values())
        )
        output_infos = describe_existing(admin, sorted(prefix + topic for topic in output_topics))
        process_topics = [ProcessTopics(name, prefix) for name in loaded_processes]
        existing = admin.describe([topics.positions_topic for topics in process_topics])
        for topics in process_topics:
            if (topic_error := topics.config_error(existing.get(topics.positions_topic))) is not None:
                raise topic_error
        output_infos |= _other_commands_topics(admin, settings, output_topics)
        brokers = admin.broker_count()
    subscriptions = [
        Subscription(name, source)
        for name, aggregates in sources.items()
        for source in event_partitions(aggregates, events_topics)
    ]
    limits = [info.number("max.message.bytes", MAX_MESSAGE_BYTES) for info in output_infos.values()]
    return (
        subscriptions,
        events_topics,
        {
            topic.removeprefix(prefix): OutputTopic(topic, info.partitions)
            for topic, info in output_infos.items()
        },
        min([_REQUEST_BYTES, *limits]),
        brokers,
    )


def _other_commands_topics(
    admin: Admin, settings: "Settings", output_topics: Collection[str]
) -> dict[str, TopicInfo]:
    """Return the existing commands topics of all other aggregates. `react` may send to them, too, because it can
    compute the aggregate's name.
    """
    names = registry.names(settings.aggregates, settings.root)
    others = [Topics(name).commands for name in names if Topics(name).commands not in output_topics]
    try:
        return admin.describe([settings.topic_prefix + topic for topic in others])
    except ConfigurationError:
        return {}  # an ACL is missing for one of these topics: a command for it causes an error when it is sent


def _parse_addresses(
    flag: str, texts: Iterable[str], subscriptions: list[Subscription]
) -> Iterator[tuple[Subscription, int]]:
    """Yield (subscription, offset) of each address. Sample: `checkout:order:3@7` is offset 7 of order's partition 3."""
    subscription_of = {subscription.address: subscription for subscription in subscriptions}
    for text in texts:
        address, position = text.rpartition("@")[0], parse_position(flag, text)
        if address not in subscription_of:
            raise UsageError(
                f"{flag}: {address!r} is not a subscription of this run",
                f"known: {', '.join(sorted(subscription_of)[:8])}",
            )
        yield subscription_of[address], position.offset
