"""The results of a job's partitions on the driver."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.jobs.engine.partition_job import run_job


class Result(NamedTuple):
    error: CqrsError | None = None


def job_results(results: dict[int, Result]) -> dict[int, Result]:
    accumulator: Any = SimpleNamespace(value=results)
    context: Any = None
    return run_job(context, accumulator, lambda: None, lambda result: None, range(3))


def test_every_partition_has_its_result() -> None:
    results = {number: Result() for number in (2, 0, 1)}
    assert list(job_results(results)) == [0, 1, 2]


def test_lost_results_are_an_error() -> None:
    """Spark counts the task as done. A `verify` without its result would find no violation."""
    with pytest.raises(CqrsError, match="the result of partition 1 was lost"):
        job_results({0: Result(), 2: Result()})


def test_errors_of_tasks_come_first() -> None:
    with pytest.raises(UnavailableError):
        job_results({0: Result(UnavailableError("no broker", "start one"))})
