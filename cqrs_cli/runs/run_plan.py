"""The assembly of a run: the plan for its aggregates, and the plan for its processes."""

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
from cqrs_cli.runs.other_runs import left_to_decide, left_to_react
from cqrs_cli.runs.snapshot import Snapshot

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings


@dataclass(frozen=True)
class OperatorOverrides:
    """An operator's overrides, as records such as `order:3@250`: accept a loss there, skip an event, fail a command."""

    accept_loss: Sequence[str] = ()
    skip: Sequence[str] = ()
    fail: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.accept_loss or self.skip or self.fail)


@dataclass(frozen=True)
class Assembly:
    """Both plans of a run; `reacting` is None if the run has no process."""

    plan: Plan
    reacting: ProcessPlan | None

    @property
    def partitions(self) -> int:
        """The number of partitions that the run owns."""
        return len(self.plan.partitions()) + (len(self.reacting.subscriptions) if self.reacting else 0)

    @property
    def names(self) -> list[str]:
        """The aggregates and process managers of the run."""
        return [*self.plan.topics, *(self.reacting.processes() if self.reacting else ())]

    def __str__(self) -> str:
        parts = [f"deciding for {', '.join(self.plan.topics)}"] if self.plan.topics else []
        parts += [f"running {', '.join(self.reacting.processes())}"] if self.reacting else []
        return ", ".join(parts)

    def left(self, note: Callable[[str], None]) -> "Assembly | None":
        """Return the part that no other run does, for `--once`, or None. Waits while another run makes progress."""
        reacting = self.reacting and left_to_react(self.reacting, note)
        plan = left_to_decide(self.plan, note)
        if plan is None and reacting is None:
            return None
        return Assembly(plan or replace(self.plan, topics={}, targets={}), reacting)

    def nothing_left(self) -> Snapshot:
        """The snapshot of a `--once` run that had nothing to do: every position is at its target."""
        now, processes = time.monotonic(), None
        if self.reacting is not None:
            targets = self.reacting.targets or {}
            processes = ProcessProgress(now, targets, targets)
        return Snapshot(now, lags=dict.fromkeys(self.plan.partitions(), 0), processes=processes)


def assemble(
    settings: "Settings",
    connection: Connection,
    aggregates: Mapping[str, Aggregate],
    processes: Sequence[LoadedProcess],
    interventions: OperatorOverrides = OperatorOverrides(),
    *,
    beginning: bool = False,
    once: bool = False,
    standby: bool = False,
) -> Assembly:
    """The run that decides for these aggregates and runs these process managers. Raises as `prepare` does.

    With `beginning` a new process manager begins at the first event, else at the end of the log.
    """
    losses = {text: parse_position("--accept-loss", text) for text in interventions.accept_loss}
    decided = [text for text, place in losses.items() if not place.process]
    heard = [text for text, place in losses.items() if place.process]
    if not processes:
        for text in (*interventions.skip, *heard):
            raise UsageError(f"{text!r} is a place of a process, and none runs", "name it: --process NAME")
    plan = prepare(
        settings,
        connection,
        aggregates,
        once=once,
        standby=standby,
        accept_loss=decided,
        fail=interventions.fail,
    )
    if not processes:
        return Assembly(plan, None)
    reacting = prepare_processes(
        settings,
        connection,
        {one.name: one for one in processes},
        once=once,
        beginning=beginning,
        skip=interventions.skip,
        accept_loss=heard,
    )
    return Assembly(plan, replace(reacting, run=plan.run, timing=plan.timing))
