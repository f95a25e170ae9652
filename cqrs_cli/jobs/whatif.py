"""The driver of `cqrs whatif`: decides the historic commands of an aggregate again, with the changed code (`--with`).

There is a Spark task for each partition; after a repartitioning, for each original partition with its descendants.

The job writes to no topic.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.errors import CqrsError
from cqrs_cli.jobs.engine.driver_address import driver_address
from cqrs_cli.jobs.engine.partition_job import result_accumulator, run_job, run_on_workers
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.jobs.engine.staging import LINES, Target, staged_writer
from cqrs_cli.kafka.clients import unreachable_error
from cqrs_cli.proof.whatif.difference import HistoryDifference, Label
from cqrs_cli.scans.guarded import guarded
from cqrs_cli.scans.whatif.plan import WhatifPlan
from cqrs_cli.scans.whatif.task import MAX_EXAMPLES, WhatifResult, simulate
from cqrs_cli.telemetry.task_reports import JobProgress, TaskReports

if TYPE_CHECKING:
    import pyarrow
    from pyspark import SparkContext


#: The maximum number of differences in an Arrow batch for Spark.
ROWS_PER_BATCH = 1_000


class WhatifSummary(NamedTuple):
    """The result of all partitions."""

    commands: int  # number of commands that were decided again
    aggregates: int  # number of aggregates that these commands address
    skipped_commands: int  # number of commands that owners had failed without a call of `decide`
    incomplete_partitions: list[int]  # partitions from which retention has deleted requested commands
    counts: Counter[Label]  # label (kind, result in the log, simulated result) → number of differences
    examples: dict[Label, list[HistoryDifference]]  # label → its first differences
    seconds: float  # duration

    @property
    def differing_decisions(self) -> int:
        """The number of commands that the changed code decides differently."""
        return sum(count for (kind, *_), count in self.counts.items() if kind != "state")

    @property
    def differing_states(self) -> int:
        """The number of aggregates whose final state differs."""
        return sum(count for (kind, *_), count in self.counts.items() if kind == "state")


def decide_all_again(
    context: "SparkContext",
    plan: WhatifPlan,
    target: Target | None = None,
    show: Callable[[JobProgress], None] = lambda progress: None,
) -> WhatifSummary:
    """Decide the commands of all partitions again; with a target, write all differences to it. `show` gets the progress
    several times a second.

    Raises the gravest error of the tasks; after an error the target is unchanged.
    """
    results = result_accumulator(context, WhatifResult)
    started_at, partitions = time.monotonic(), plan.families
    with TaskReports(driver_address(context), dict.fromkeys(partitions)) as reports:
        plan = replace(plan, report_address=reports.address)

        def show_progress(results: dict[int, WhatifResult]) -> None:
            show(reports.progress({partition: result.commands for partition, result in results.items()}))

        run_tasks = partial(run_job, context, results, show=show_progress, partitions=partitions)
        if target is None:
            results_by_partition = run_tasks(
                partial(run_on_workers, context, partitions, partial(_decide_task, plan), results)
            )
        else:
            difference_rows = partial(_difference_rows, plan, results)
            with staged_writer(context, target) as write:
                results_by_partition = run_tasks(partial(write, len(partitions), difference_rows, LINES))
    return summarize(list(results_by_partition.values()), time.monotonic() - started_at)


def summarize(results: list[WhatifResult], seconds: float) -> WhatifSummary:
    """Combine the results of all partitions, which are in the order of partitions."""
    counts: Counter[Label] = Counter()
    examples: dict[Label, list[HistoryDifference]] = {}
    for result in results:
        counts.update(result.counts)
        for label, differences in result.examples.items():
            label_examples = examples.setdefault(label, [])
            label_examples += differences[: MAX_EXAMPLES - len(label_examples)]
    return WhatifSummary(
        sum(result.commands for result in results),
        sum(result.aggregates for result in results),
        sum(result.skipped_commands for result in results),
        [result.partition for result in results if result.is_incomplete],
        counts,
        examples,
        seconds,
    )


def decide_partition_again(plan: WhatifPlan, partition: int) -> WhatifResult:
    """Decide the commands of one partition again. Raises nothing: an error is a value, so Spark sees no failed task."""
    result = WhatifResult(partition)

    def decide() -> WhatifResult:
        for _ in simulate(plan, result):
            pass
        return result

    location = f"{plan.aggregate_topics.topics.commands} partition {partition}"
    return guarded(plan.connection, location, decide, lambda error: WhatifResult(partition, error=error))


def _decide_task(plan: WhatifPlan, partition: int) -> WhatifResult:
    """Decide the commands of one partition again on a Spark worker, if there is no target."""
    return decide_partition_again(_with_shipped_code(plan), partition)


def _difference_rows(
    plan: WhatifPlan, results: Any, partition_batches: "Iterator[pyarrow.RecordBatch]"
) -> "Iterator[pyarrow.RecordBatch]":
    """Map partition numbers to their differences on a Spark worker, and add each partition's result to the accumulator
    `results`.
    """
    plan = _with_shipped_code(plan)
    for batch in partition_batches:
        for partition in batch.column(0).to_pylist():
            result = WhatifResult(partition)
            try:
                yield from difference_rows(simulate(plan, result))
            except CqrsError as error:
                result = WhatifResult(partition, error=error)
            except KafkaException as kafka_error:
                result = WhatifResult(partition, error=unreachable_error(plan.connection, kafka_error))
            results.add({partition: result})


def difference_rows(differences: Iterator[HistoryDifference]) -> "Iterator[pyarrow.RecordBatch]":
    """Yield Arrow batches, in which each difference is a line of JSON."""
    import pyarrow

    while batch := list(islice(differences, ROWS_PER_BATCH)):
        lines = [encode_json(difference.document()).decode() for difference in batch]
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(lines, pyarrow.string())], ["line"])


def _with_shipped_code(plan: WhatifPlan) -> WhatifPlan:
    """Return the plan for a Spark worker, which loads both the current and the changed code from shipped archives."""
    module_root = code_root(plan.module.partition(".")[0], plan.module_root)
    return replace(plan, root=code_root(plan.package, plan.root), module_root=module_root)
