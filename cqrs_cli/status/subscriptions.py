"""The status of each subscription of a process manager."""

import time
from pathlib import Path

from cqrs_cli.following.processes.errors import describe_suspects
from cqrs_cli.following.processes.plan import subscription_folder
from cqrs_cli.following.processes.subscription_reader import SubscriptionState
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.status.partition import PROCESS, PartitionStatus, owner_of
from cqrs_cli.telemetry.status_file import read_status


def subscription_status(state: SubscriptionState, topics: ProcessTopics, state_dir: Path) -> PartitionStatus:
    """Return the status of a subscription. If its owner is on this machine, the status has the reason why the owner
    waits.
    """
    subscription, source, position = state.subscription, state.subscription.source, state.position
    offset = None if position is None else position.offset
    lag = 0 if offset is None else max(0, state.end - max(state.start, offset))
    stopped_at = None if position is None else position.stopped
    owner = owner_of(None if position is None else position.claim)
    suspects = None if position is None else position.claim.suspects
    owner_status = read_status(subscription_folder(state_dir, topics, source.topic, source.partition))
    return PartitionStatus(
        PROCESS,
        subscription.process,
        *source,
        polled_at=time.monotonic(),
        start=state.start,
        end=state.end,
        position=offset,
        lag=lag,
        owner=owner,
        is_owned=owner is not None and not owner.stopped,
        suspect_text=None if suspects is None else describe_suspects(suspects),
        wait_reason=(owner_status.blocked or None) if lag else None,
        stopped_at=stopped_at,
        last_error=None if position is None else position.error,
        remedy_command=f"cqrs run --process {subscription.process} --skip {subscription.address}@{stopped_at}",
    )
