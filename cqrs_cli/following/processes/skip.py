"""Skips the event that stopped a process manager, without a run, and reads the events that were skipped."""

import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaException

from cqrs_cli.client.queries.message_trees import EventSkip, Skips
from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.following.processes.in_doubt import resolve_in_doubt_transaction
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import Skip, skipped_position, skipping_error
from cqrs_cli.following.processes.positions import read_positions
from cqrs_cli.following.processes.session import ReactSession
from cqrs_cli.kafka.clients import is_client_unusable, unreachable_error
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.write_errors import BatchRefusedError
from cqrs_cli.ownership.retire import repeat_if_fenced


def skip_event(plan: ProcessPlan, subscription: Subscription, offset: int) -> None:
    """Move the position of a stopped process manager after the event at `offset`, and record `plan.actor`.

    The claim does not change. If a run is starting at the same time, either this call fences the run's owner, which
    then starts at the new position, or the owner fences this call, which then repeats the skip. Raises `UsageError` if
    another event, or no event, has stopped the process manager; `UnavailableError` if the skip was not committed.
    """
    own_skip = Skip(offset, time.time_ns() // 1_000_000, plan.actor)
    try:
        repeat_if_fenced(partial(_skip, plan, subscription, own_skip))
    except BatchRefusedError as error:
        raise _uncommitted_error(subscription, str(error)) from error
    except KafkaException as error:
        if is_client_unusable(error):
            raise _uncommitted_error(subscription, "a starting run fenced it") from error
        raise unreachable_error(plan.connection, error) from error


def _skip(plan: ProcessPlan, subscription: Subscription, own_skip: Skip) -> None:
    """Commit the skip in a new session. Do nothing if an earlier call has committed it, but got no response."""
    resolve_in_doubt_transaction(plan, subscription, False)
    with ReactSession(plan, subscription, plan.claim(subscription, 0), 1) as session:
        session.writer.fence()
        session.position_after_fence()
        position = session.position
        if position is not None and own_skip in position.skips:
            return
        if position is None or position.stopped != own_skip.offset:
            raise skipping_error(subscription.process, subscription.source, position, own_skip.offset)
        session.commit([], skipped_position(position, own_skip.actor, own_skip.time))


def _uncommitted_error(subscription: Subscription, reason: str) -> UnavailableError:
    return UnavailableError(
        f"the skip of process {subscription.process} was not committed: {reason}", "try again"
    )


def read_skips(connection: Connection, processes: Iterable[str], prefix: str) -> Skips:
    """Return the skipped events of these process managers, for a trace. Positions that cannot be read are left out:
    the topic may not exist, or an ACL may be missing.
    """
    skips: dict[tuple[str, int, int], list[EventSkip]] = {}
    for process in processes:
        with suppress(CqrsError):
            positions = read_positions(connection, ProcessTopics(process, prefix), "read_committed")
            for key, position in positions.items():
                topic, _, partition = key.decode().rpartition("/")
                records = {skip.offset: skip for skip in position.skips}
                for offset in position.all_skipped:
                    skip = records.get(offset)
                    aggregate = topic.removeprefix(prefix).removesuffix(".events")
                    event_skip = EventSkip(process, skip.actor if skip else "", skip.time if skip else None)
                    skips.setdefault((aggregate, int(partition), offset), []).append(event_skip)
    return skips
