"""Lists the process managers and projections of a project."""

from typing import Any

from cqrs_cli.console.overview import partition_details
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.console.sampler import StatusSampler
from cqrs_cli.errors import CqrsError
from cqrs_cli.status.document import statuses_by_name
from cqrs_cli.status.partition import PROCESS, PartitionStatus


def processes_document(project: ConsoleProject, sampler: StatusSampler) -> dict[str, Any]:
    """Return the newest status of each process manager."""
    snapshot = sampler.sample.snapshot
    statuses = [] if snapshot is None else [status for status in snapshot.statuses if status.kind is PROCESS]
    by_name = dict(statuses_by_name(statuses))
    return {
        "processes": {
            process.name: {
                "lag": sum(status.lag or 0 for status in by_name.get(process.name, ())),
                "sources": sorted(process.sources),
                "stopped": any(status.stopped_at is not None for status in by_name.get(process.name, ())),
                "partitions": [_with_remedy(project, status) for status in by_name.get(process.name, ())],
            }
            for process in project.processes
        },
        "missing": [
            process.name
            for process in project.processes
            if snapshot is not None and f"process {process.name}" in snapshot.missing
        ],
    }


def _with_remedy(project: ConsoleProject, status: PartitionStatus) -> dict[str, Any]:
    is_stopped = status.stopped_at is not None
    return {
        **partition_details(status),
        "aggregate": status.aggregate,
        "remedy": project.with_flags(status.remedy_command) if is_stopped else None,
    }


def projections_document(project: ConsoleProject) -> dict[str, Any]:
    """Return the positions of the projections in the project's database, or the reason why they cannot be read."""
    if project.database is None:
        return {"database": None, "error": None, "projections": {}}
    from cqrs_cli.following.projections.database import url_without_password
    from cqrs_cli.status.projections import projection_statuses

    error_text, statuses = None, list[PartitionStatus]()
    try:
        statuses = projection_statuses(project.connection, project.database)
    except CqrsError as error:
        error_text = str(error)
    return {
        "database": url_without_password(project.database),
        "error": error_text,
        "projections": {
            name: {
                "lag": sum(status.lag or 0 for status in own_statuses),
                "partitions": [partition_details(status) for status in own_statuses],
            }
            for name, own_statuses in statuses_by_name(statuses)
        },
    }
