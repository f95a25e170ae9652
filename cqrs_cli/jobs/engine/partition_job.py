"""A Spark job with one task for each partition. A task returns its error as a value, so Spark sees no failed task."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from cqrs_cli.errors import CqrsError
from cqrs_cli.jobs.engine.session import code_root, spark_failure
from cqrs_cli.scans.plan import ReadPlan

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: Seconds between two reports of progress.
REPORT_INTERVAL = 0.2


class PartitionResult(Protocol):
    """The result of one partition's task: a value, or the error that ends the job."""

    @property
    def error(self) -> CqrsError | None: ...


_Result = TypeVar("_Result", bound=PartitionResult)
_Plan = TypeVar("_Plan", bound=ReadPlan)


def result_accumulator(
    context: "SparkContext", result_type: type[_Result]
) -> "Accumulator[dict[int, _Result]]":
    """Return an accumulator to which each task adds `{partition: result}`."""
    return context.accumulator({}, _ResultMerger())  # type: ignore[arg-type]


class _ResultMerger:
    """Merges the tasks' results; the result of a partition that Spark ran twice counts once."""

    def zero(self, value: dict[int, _Result]) -> dict[int, _Result]:
        return {}

    def addInPlace(self, results: dict[int, _Result], more_results: dict[int, _Result]) -> dict[int, _Result]:
        results.update(more_results)
        return results


def run_on_workers(
    context: "SparkContext",
    partitions: Sequence[int],
    task: Callable[[int], _Result],
    results: "Accumulator[dict[int, _Result]]",
) -> None:
    """Run a job, and wait for its end: workers call `task` with each of these partitions, and add its result to
    `results`.
    """
    context.parallelize(partitions, len(partitions)).foreach(partial(_add_result, task, results))


def _add_result(
    task: Callable[[int], _Result], results: "Accumulator[dict[int, _Result]]", partition: int
) -> None:
    results.add({partition: task(partition)})


def with_shipped_code(plan: _Plan) -> _Plan:
    """Return the plan for a worker, which loads the aggregates' code from the shipped archive."""
    return replace(plan, root=code_root(plan.package, plan.root))


def run_job(
    context: "SparkContext",
    results: "Accumulator[dict[int, _Result]]",
    job: Callable[[], None],
    show: Callable[[dict[int, _Result]], None],
    partitions: Iterable[int],
) -> dict[int, _Result]:
    """Call `job`, which runs a job whose tasks add to `results`; return partition → result when it has ended.

    `show` is called with the results so far, every `REPORT_INTERVAL` seconds.

    Raises the gravest error of the tasks; of equally grave errors, the error of the lowest partition. Raises
    `CqrsError` if one of the `partitions` then has no result: if the driver cannot read a result, Spark only logs this.
    """
    thread = _JobThread(job)
    while thread.is_alive():
        thread.join(REPORT_INTERVAL)
        show(dict(results.value))
    results_by_partition = dict(sorted(results.value.items()))
    raise_gravest(results_by_partition.values())
    if thread.error is not None:
        error = thread.error
        raise error if isinstance(error, CqrsError) else spark_failure(context, error)
    if missing_partitions := sorted(set(partitions) - results_by_partition.keys()):
        raise CqrsError(
            f"the result of partition {missing_partitions[0]} was lost on its way to the driver",
            "see Spark's log, and check that the workers have the driver's version of this package",
        )
    return results_by_partition


def raise_gravest(results: Iterable[PartitionResult]) -> None:
    """Raise the error with the highest exit code; of several, the first. Do nothing if there is no error."""
    errors = [result.error for result in results if result.error is not None]
    if errors:
        raise max(errors, key=lambda error: error.exit_code)


class _JobThread(threading.Thread):
    """A Spark job in a thread of its own: Ctrl-C interrupts only the main thread, so never a call that waits for the
    JVM.
    """

    def __init__(self, job: Callable[[], None]) -> None:
        super().__init__(name="job", daemon=True)
        self._job = job
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._job()
        except Exception as error:  # py4j wraps every error of Spark
            self.error = error
