"""The overview: the status of all partitions, the counts of outcomes, and problems for an operator to solve."""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, NamedTuple

from cqrs_cli.console.sampler import Point, StatusSampler
from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import CqrsError
from cqrs_cli.formatting import counted
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.columns import partition_document
from cqrs_cli.status.document import status_document, statuses_by_name
from cqrs_cli.status.partition import AGGREGATE, PROCESS, PartitionStatus
from cqrs_cli.status.rates import StatusSnapshot


class ConsoleProblem(NamedTuple):
    """A problem that exists now."""

    subject: str  # the aggregate or partition with the problem
    text: str
    command: str | None  # a command line that solves the problem, or None


def overview_document(sampler: StatusSampler, store: str, with_flags: Callable[[str], str]) -> dict[str, Any]:
    """Return the newest status of all partitions as JSON."""
    sample = sampler.sample
    snapshot, point, error = sample.snapshot, sample.point, sample.error
    problems = [] if snapshot is None else list(problems_of(snapshot))
    if error is not None:
        problems.insert(0, _problem_of(error))
    return {
        "time": None if snapshot is None else rfc3339(snapshot.clock),
        "time_ms": None if snapshot is None else snapshot.clock,
        "interval": round(sample.interval, 2),
        "error": None if error is None else str(error),
        "problems": [
            {
                "subject": problem.subject,
                "text": problem.text,
                "command": None if problem.command is None else with_flags(problem.command),
            }
            for problem in problems
        ],
        "status": None if snapshot is None else status_document(snapshot, store, describe=partition_details),
        "outcomes": {} if snapshot is None else outcome_counts(snapshot),
        "reasons": sampler.reasons(),
        "point": None if point is None else point_document(point),
    }


def partition_details(status: PartitionStatus) -> dict[str, Any]:
    """Return a partition as JSON: the columns of `cqrs status`, its rates and its remarks."""
    document = partition_document(status)
    if (rates := status.rates) is not None:
        document["rates"] = {"sent": rates.sent, "decided": rates.done, "rejected": rates.rejected}
    else:
        document["rates"] = None
    document["oldest_ms"], document["latency_ms"] = status.oldest_age_ms, status.latency_ms
    document["standbys"], document["remarks"] = status.standbys, status.remarks()
    return document


def point_document(point: Point) -> dict[str, Any]:
    """Return a point as JSON."""
    return {"time_ms": point.time_ms, "series": point.series}


def outcome_counts(snapshot: StatusSnapshot) -> dict[str, dict[str, int]]:
    """Return aggregate → status → number of outcomes since the start of the run that owns the partitions."""
    counts: dict[str, list[Counts]] = {}
    for status in snapshot.statuses:
        if status.kind is AGGREGATE:
            counts.setdefault(status.name, []).extend([] if status.counts is None else [status.counts])
    return {
        name: {decision: sum(map(attrgetter(decision), owned)) for decision in STATUSES} if owned else {}
        for name, owned in counts.items()
    }


def problems_of(snapshot: StatusSnapshot) -> Iterator[ConsoleProblem]:
    """Yield the problems in a snapshot: missing topics, waiting partitions without an owner, silent runs, remarks."""
    for name, error in snapshot.missing.items():
        yield _problem_of(error)._replace(subject=name)
    for name, statuses in statuses_by_name(snapshot.statuses):
        yield from _ownership_problems(name, statuses)
    for status in snapshot.statuses:
        for remark in status.remarks():
            yield ConsoleProblem(status.label, remark, status.remedy_command or None)


def _ownership_problems(name: str, statuses: list[PartitionStatus]) -> Iterator[ConsoleProblem]:
    kind = statuses[0].kind
    if kind not in (AGGREGATE, PROCESS):
        return
    run = f"cqrs run {name}" if kind is AGGREGATE else f"cqrs run --process {name}"
    waiting = [status for status in statuses if status.lag and not status.is_owned]
    if waiting:
        lag = counted(sum(status.lag or 0 for status in waiting), kind.unit.removesuffix("s"))
        text = f"{lag} waiting in {counted(len(waiting), 'partition')} without an owner"
        yield ConsoleProblem(name, text, run)
    silent_runs = {status.owner for status in statuses if status.owner and status.owner.silent_seconds}
    for owner in silent_runs:
        text = f"run {owner} sends no heartbeats: it may be dead"
        yield ConsoleProblem(name, text, run)


def _problem_of(error: CqrsError) -> ConsoleProblem:
    """Return an error as a problem. The command is taken from the end of the hint, such as `create it: cqrs init
    order`.
    """
    before, separator, command = error.hint.rpartition(": cqrs ")
    hint = before if separator else error.hint
    text = f"{error.message}; {hint}" if hint else error.message
    return ConsoleProblem("", text, f"cqrs {command}" if separator else None)
