"""The plan of a run: the plan for its aggregates, and the plan for its process managers."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.plan import Plan
from cqrs_cli.deciding.prepare import prepare
from cqrs_cli.errors import UsageError
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessProgress
from cqrs_cli.following.processes.prepare import prepare_processes
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.position_notation import parse_position
from cqrs_cli.runs.other_runs import undecided_part, unhandled_part
from cqrs_cli.runs.snapshot import Snapshot

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


@dataclass(frozen=True)
class OperatorOverrides:
    """The options with which an operator continues after a problem. Positions are texts such as `order:3@250`:
    partition 3 of `order`, offset 250.
    """

    accept_loss: Sequence[str] = ()  # positions at which to continue after a loss of records
    skip: Sequence[str] = ()  # positions of events that process managers skip
    fail: Sequence[str] = ()  # positions of commands that fail without a decision
    actor: str = ""  # the operator who skips events

    def __bool__(self) -> bool:
        return bool(self.accept_loss or self.skip or self.fail)


@dataclass(frozen=True)
class RunPlan:
    """The plan for a run's aggregates, and the plan for its process managers."""

    deciding_plan: Plan  # without topics if the run decides for no aggregate
    process_plan: ProcessPlan | None  # None if the run has no process manager

    @property
    def partition_count(self) -> int:
        """The number of partitions and subscriptions that the run will own."""
        subscriptions = self.process_plan.subscriptions if self.process_plan else []
        return len(self.deciding_plan.partitions()) + len(subscriptions)

    @property
    def names(self) -> list[str]:
        """The aggregates and process managers of the run."""
        return [*self.deciding_plan.topics, *(self.process_plan.processes() if self.process_plan else ())]

    def __str__(self) -> str:
        parts = [f"deciding for {', '.join(self.deciding_plan.topics)}"] if self.deciding_plan.topics else []
        parts += [f"running {', '.join(self.process_plan.processes())}"] if self.process_plan else []
        return ", ".join(parts)

    def remaining_part(self, report: Callable[[str], None]) -> "RunPlan | None":
        """Return the part of a `--once` plan that this run must do; None if other runs have done everything.

        Waits while another run makes progress.
        """
        process_plan = None if self.process_plan is None else unhandled_part(self.process_plan, report)
        deciding_plan = undecided_part(self.deciding_plan, report)
        if deciding_plan is None and process_plan is None:
            return None
        return RunPlan(deciding_plan or replace(self.deciding_plan, topics={}, end_offsets={}), process_plan)

    def finished_snapshot(self) -> Snapshot:
        """Return the snapshot of a `--once` run that had nothing to do: every position is at its end offset."""
        now, processes = time.monotonic(), None
        if self.process_plan is not None:
            end_offsets = self.process_plan.end_offsets or {}
            processes = ProcessProgress(now, end_offsets, end_offsets)
        return Snapshot(
            now, lags=dict.fromkeys(self.deciding_plan.partitions(), 0), process_progress=processes
        )


def plan_run(
    settings: "Settings",
    connection: Connection,
    aggregates: Mapping[str, Aggregate],
    processes: Sequence[LoadedProcess],
    overrides: OperatorOverrides = OperatorOverrides(),
    *,
    from_beginning: bool = False,
    once: bool = False,
    standby: bool = False,
) -> RunPlan:
    """Return the plan of a run that decides for these aggregates and runs these process managers.

    `from_beginning`: a new process manager starts at the first event instead of the end of the log. Raises the errors
    of `prepare` and `prepare_processes`, and `UsageError` for overrides of process managers in a run without process
    managers.
    """
    loss_positions = {text: parse_position("--accept-loss", text) for text in overrides.accept_loss}
    aggregate_losses = [text for text, position in loss_positions.items() if not position.process]
    process_losses = [text for text, position in loss_positions.items() if position.process]
    if not processes:
        for text in (*overrides.skip, *process_losses):
            raise UsageError(
                f"{text!r} is a position of a process manager, and this run has none",
                "start the process manager, too: --process NAME",
            )
    deciding_plan = prepare(
        settings,
        connection,
        aggregates,
        once=once,
        standby=standby,
        accept_loss=aggregate_losses,
        fail=overrides.fail,
    )
    if not processes:
        return RunPlan(deciding_plan, None)
    process_plan = prepare_processes(
        settings,
        connection,
        {process.name: process for process in processes},
        once=once,
        from_beginning=from_beginning,
        skip=overrides.skip,
        actor=overrides.actor,
        accept_loss=process_losses,
    )
    return RunPlan(deciding_plan, replace(process_plan, run=deciding_plan.run, timing=deciding_plan.timing))
