"""The status of partitions as the driver of a run knows them, without another poll."""

from cqrs_cli.following.processes.plan import ProcessProgress
from cqrs_cli.following.projections.plan import ProjectionProgress
from cqrs_cli.status.partition import PROCESS, PROJECTION, PartitionStatus


def process_statuses(progress: ProcessProgress | None) -> list[PartitionStatus]:
    """Return the status of a run's subscriptions; subscriptions that the run has not claimed have no owner."""
    if progress is None:
        return []
    statuses = []
    for subscription, end in progress.ends.items():
        position, is_owned = progress.positions.get(subscription, 0), subscription in progress.claimed
        statuses.append(
            PartitionStatus(
                PROCESS,
                subscription.process,
                *subscription.source,
                end=end,
                position=position,
                lag=max(0, end - position),
                owned=is_owned,
                idle="" if is_owned else "no owner",
            )
        )
    return statuses


def running_projection_statuses(name: str, progress: ProjectionProgress) -> list[PartitionStatus]:
    """Return the status of a projection's partitions."""
    statuses = []
    for source, end in progress.ends.items():
        position = progress.positions.get(source)
        idle_reason = "" if position is not None else "no position"
        statuses.append(
            PartitionStatus(
                PROJECTION,
                name,
                *source,
                end=end,
                position=position or 0,
                lag=max(0, end - (position or 0)),
                idle="new tables are filled" if progress.is_shadow else idle_reason,
            )
        )
    return statuses
