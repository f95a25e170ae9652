"""The Spark task of `cqrs project`: projects its partitions into the tables, with one thread for each partition."""

import gc
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from cqrs_cli.following.projections.load import load_projection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectorResult
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.system.tolerant_stderr import ignore_stderr_errors
from cqrs_cli.telemetry.datagrams import Address, send_message


def run_task(
    plan: ProjectionPlan,
    source_numbers: Iterable[int],
    root: Path,
    aggregates_root: Path,
    driver: Address | None = None,
) -> Iterator[ProjectorResult]:
    """Project partitions until all have ended, and yield one result for each. `source_numbers`: indexes of the
    partitions in `plan.sources`.

    If the parent process has died, the task exits without a result.
    """
    ignore_stderr_errors()  # stderr is the workers' log file: a full disk must not end the task
    parent_pid = os.getppid()
    notes: list[str] = []

    def report(text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        notes.append(text)
        send_message(driver, text)

    def exit_with_parent(stopping: threading.Event) -> None:
        if os.getppid() != parent_pid:
            os._exit(os.EX_SOFTWARE)

    loaded_projection = load_projection(plan.name, root, plan.package, aggregates_root)
    gc.freeze()
    first_result, *other_results = project_partitions(
        plan, [plan.sources[number] for number in source_numbers], loaded_projection, report, exit_with_parent
    )
    yield replace(first_result, notes=tuple(notes))
    yield from other_results
