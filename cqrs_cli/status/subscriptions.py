"""The status of each subscription of a process."""

import time
from pathlib import Path

from cqrs_cli.following.processes.explain import explain_trial
from cqrs_cli.following.processes.heard import HeardPartition
from cqrs_cli.following.processes.plan import subscription_place
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.status.partition import HEARD, PlaceStatus, claimed
from cqrs_cli.telemetry.blocked_file import blocked_by


def heard_place(found: HeardPartition, topics: ProcessTopics, state_dir: Path) -> PlaceStatus:
    """Return the status of a subscription after a poll, with its owner's report if the owner is on this machine."""
    subscription, source, position = found.subscription, found.subscription.source, found.position
    offset = None if position is None else position.offset
    lag = 0 if offset is None else max(0, found.end - max(found.start, offset))
    stopped = None if position is None else position.stopped
    owner = claimed(None if position is None else position.claim)
    trial = None if position is None else position.claim.trial
    waits = blocked_by(subscription_place(state_dir, topics, source.topic, source.partition)) if lag else ""
    return PlaceStatus(
        HEARD,
        subscription.process,
        *source,
        at=time.monotonic(),
        start=found.start,
        end=found.end,
        position=offset,
        lag=lag,
        owner=owner,
        owned=owner is not None and not owner.stopped,
        trial=None if trial is None else explain_trial(trial),
        waits_for=waits or None,
        stopped_at=stopped,
        way_out=f"cqrs run --process {subscription.process} --skip {subscription.place}@{stopped}",
    )
