"""Skips the event that stopped a process manager."""

from typing import Any

from cqrs_cli.client.queries.messages import message_reader
from cqrs_cli.console.personal import event_codec, message_view
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.console.search import record_document
from cqrs_cli.following.gateway.gateway import Problem
from cqrs_cli.following.gateway.token import Access
from cqrs_cli.following.processes.plan import Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.following.processes.positions import read_positions
from cqrs_cli.following.processes.prepare import prepare_processes
from cqrs_cli.following.processes.skip import skip_event
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.ownership.claim import TERMINAL


def skip_stopping_event(
    project: ConsoleProject,
    process: str,
    aggregate: str,
    partition: int,
    offset: int,
    access: Access,
    is_dry_run: bool,
) -> dict[str, Any]:
    """Skip the event at which a process manager has stopped; with `is_dry_run` return a preview.

    Raises `Problem` 404 for an unknown process manager, 409 if another event or no event has stopped it.
    """
    loaded = next((loaded for loaded in project.processes if loaded.name == process), None)
    if loaded is None or aggregate not in loaded.sources:
        raise Problem(404, "no such process manager", f"{process} < {aggregate}")
    address = f"{process}:{aggregate}:{partition}"
    # This also checks topics and ACLs.
    plan = prepare_processes(project.settings, project.connection, {process: loaded}, actor=access.name)
    subscription = next((own for own in plan.subscriptions if own.address == address), None)
    if subscription is None:
        raise Problem(404, "no such partition", address)
    positions = read_positions(project.connection, plan.topics(subscription), "read_committed")
    position = positions.get(position_key(subscription.source))
    if position is None or position.stopped != offset:
        raise Problem(409, "another event or no event has stopped the process manager", address)
    if is_dry_run:
        return _preview(project, subscription, position, "personal" in access.rights)
    skip_event(plan, subscription, offset)
    return {"skipped": 1, "process": process, "position": offset + 1}


def _preview(
    project: ConsoleProject, subscription: Subscription, position: ProcessPosition, sees_personal: bool
) -> dict[str, Any]:
    run = f"cqrs run --process {subscription.process}"
    is_active = position.claim.attempt != TERMINAL
    assert position.stopped is not None
    return {
        "count": 1,
        "event": _event_document(project, subscription.source, position.stopped, sees_personal),
        "error": None if position.error is None else position.error.document(),
        "note": f"run {position.claim.run} continues at the next event"
        if is_active
        else "no run is active: start one after the skip",
        "command": None if is_active else project.with_flags(run),
    }


def _event_document(project: ConsoleProject, source: EventPartition, offset: int, sees_personal: bool) -> Any:
    """Return the event at an offset as JSON; None if it is deleted or cannot be read."""
    codec = event_codec(project, source.aggregate, sees_personal)
    try:
        log = PartitionLog(project.connection, source.topics, source.partition)
        for records in log.read("events", offset, offset + 1):
            record = codec.decode_if_available(source.topic, source.partition, records[0])
            message = message_reader({""})("events", source.aggregate, source.partition, record)
            if message is not None:
                return record_document(message_view(project.aggregates, sees_personal)(message))
    finally:
        codec.close()
    return None
