"""The overview: the status of all partitions, the counts of outcomes, and problems for an operator to solve."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from cqrs_cli.console.sampler import Point, Sample
from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import CqrsError
from cqrs_cli.formatting import counted
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.columns import partition_document
from cqrs_cli.status.document import statuses_by_name
from cqrs_cli.status.partition import AGGREGATE, PROCESS, PartitionStatus
from cqrs_cli.status.rates import StatusSnapshot


class ConsoleProblem(NamedTuple):
    """A problem that exists now."""

    subject: str  # the aggregate or partition with the problem
    text: str
    command: str | None  # a command line that solves the problem, or None


def overview_document(
    sample: Sample,
    reasons: Mapping[str, Mapping[str, int]],
    with_flags: Callable[[str], str],
    status: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return a poll as JSON. `reasons`: of `StatusSampler`; `status`: the document of the poll's snapshot."""
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
        "status": status,
        "silent_runs": {} if snapshot is None else silent_runs(snapshot.statuses),
        "outcomes": {} if snapshot is None else outcome_counts(snapshot),
        "reasons": reasons,
        "point": None if point is None else point_document(point),
    }


def partition_details(status: PartitionStatus) -> dict[str, Any]:
    """Return a partition as JSON: the columns of `cqrs status`, its rates and its remarks."""
    document = partition_document(status)
    if (rates := status.rates) is not None:
        sent = None if rates.sent is None else round(rates.sent, 2)
        document["rates"] = {
            "sent": sent,
            "decided": round(rates.done, 2),
            "rejected": round(rates.rejected, 2),
        }
    else:
        document["rates"] = None
    oldest = status.oldest_timestamp
    document["oldest"], document["latency_ms"] = (
        None if oldest is None else rfc3339(oldest),
        status.latency_ms,
    )
    document["standbys"], document["remarks"] = status.standbys, status.remarks()
    return document


def silent_runs(statuses: Iterable[PartitionStatus]) -> dict[str, int]:
    """Return the seconds since the last heartbeat of each silent run."""
    owners = (status.owner for status in statuses)
    return {owner.run: owner.silent_seconds for owner in owners if owner and owner.silent_seconds}


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
    silent_owners = {status.owner for status in statuses if status.owner and status.owner.silent_seconds}
    for owner in silent_owners:
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
