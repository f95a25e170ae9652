"""The status of partitions as the driver of a run knows them, without another poll."""

from cqrs_cli.following.processes.plan import ProcessProgress
from cqrs_cli.following.projections.plan import ProjectionProgress
from cqrs_cli.status.partition import HEARD, PROJECTED, PlaceStatus


def places_of_processes(progress: ProcessProgress | None) -> list[PlaceStatus]:
    """Return the status of a run's subscriptions; subscriptions that the run has not claimed have no owner."""
    if progress is None:
        return []
    found = []
    for subscription, end in progress.ends.items():
        position, owned = progress.positions.get(subscription, 0), subscription in progress.claimed
        found.append(
            PlaceStatus(
                HEARD,
                subscription.process,
                *subscription.source,
                end=end,
                position=position,
                lag=max(0, end - position),
                owned=owned,
                idle="" if owned else "no owner",
            )
        )
    return found


def places_of_projection(name: str, progress: ProjectionProgress) -> list[PlaceStatus]:
    """Return the status of a projection's partitions."""
    found = []
    for source, end in progress.ends.items():
        position = progress.positions.get(source)
        idle = "" if position is not None else "no position"
        found.append(
            PlaceStatus(
                PROJECTED,
                name,
                *source,
                end=end,
                position=position or 0,
                lag=max(0, end - (position or 0)),
                idle="new tables are filled" if progress.beside else idle,
            )
        )
    return found
