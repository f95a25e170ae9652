"""The status of partitions as the driver of a run knows them, without another poll."""

from cqrs_cli.following.processes.plan import ProcessProgress
from cqrs_cli.following.projections.plan import ProjectionProgress
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.status.partition import PROCESS, PROJECTION, PartitionKind, PartitionStatus


def process_statuses(progress: ProcessProgress | None) -> list[PartitionStatus]:
    """Return the status of a run's subscriptions; subscriptions that the run has not claimed have no owner."""
    if progress is None:
        return []
    statuses = []
    for subscription, end in progress.ends.items():
        position, is_owned = progress.positions.get(subscription, 0), subscription in progress.claimed
        idle_reason = "" if is_owned else "no owner"
        statuses.append(
            _status(PROCESS, subscription.process, subscription.source, position, end, idle_reason, is_owned)
        )
    return statuses


def running_projection_statuses(name: str, progress: ProjectionProgress) -> list[PartitionStatus]:
    """Return the status of a projection's partitions."""
    statuses = []
    for source, end in progress.ends.items():
        position = progress.positions.get(source)
        idle_reason = "" if position is not None else "no position"
        if progress.is_shadow:
            idle_reason = "new tables are filled"
        statuses.append(_status(PROJECTION, name, source, position or 0, end, idle_reason))
    return statuses


def _status(
    kind: PartitionKind,
    name: str,
    source: EventPartition,
    position: int,
    end: int,
    idle_reason: str,
    is_owned: bool | None = None,
) -> PartitionStatus:
    lag = max(0, end - position)
    return PartitionStatus(
        kind, name, *source, end=end, position=position, lag=lag, is_owned=is_owned, idle_reason=idle_reason
    )
