"""The task of `cqrs whatif` on a worker: read the logs of a family of partitions, and decide their commands again.

A family is a partition that existed from the start, with all its descendants: partitions that were split from it, or
from its children.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.ownership.complete_events import complete_bounds
from cqrs_cli.proof.whatif.decided import (
    HistoryError,
    Lookahead,
    decoded_events,
    decoded_outcomes,
    join_history,
)
from cqrs_cli.proof.whatif.difference import HistoryDifference, Label
from cqrs_cli.registry import load, load_from
from cqrs_cli.scans.log_progress import LogProgress
from cqrs_cli.scans.whatif.plan import WhatifPlan
from cqrs_cli.scans.whatif.simulation import PartitionSimulation
from cqrs_cli.scans.whatif.stores import open_stores

#: The maximal number of examples for each label of a difference.
MAX_EXAMPLES = 3


@dataclass(slots=True)
class WhatifResult:
    """The result for one family: numbers and examples, or the error that ends the job."""

    partition: int  # the first partition of the family
    commands: int = 0  # number of commands that were decided again
    aggregates: int = 0  # number of aggregates whose final states were compared
    skipped_commands: int = 0  # number of commands that failed without calling `decide`
    is_incomplete: bool = False  # True if retention has deleted requested commands
    counts: Counter[Label] = field(default_factory=Counter)  # label → number of differences
    examples: dict[Label, list[HistoryDifference]] = field(default_factory=dict)
    error: CqrsError | None = None

    def add_difference(self, difference: HistoryDifference) -> None:
        """Count a difference, and keep it as an example if its label has fewer than `MAX_EXAMPLES`."""
        self.counts[difference.label] += 1
        examples = self.examples.setdefault(difference.label, [])
        if len(examples) < MAX_EXAMPLES:
            examples.append(difference)


def simulate(plan: WhatifPlan, result: WhatifResult) -> Iterator[HistoryDifference]:
    """Yield the differences of the family of `result.partition`, partition by partition, and fill `result`.

    For each partition, the differences of its commands come first, in order, then the differences of its states.

    Raises `ContradictionError` for logs that contradict each other, or if the current or the changed code cannot fold
    the events.
    """
    topics, codec = plan.aggregate_topics.topics, plan.connection.payload_codec()
    log = PartitionLog(plan.connection, topics, result.partition, codec)
    with ExitStack() as stack:
        log_progress = stack.enter_context(closing(LogProgress(plan.report_address, result.partition)))
        for difference in _differences(plan, log, result, log_progress, stack):
            result.add_difference(difference)
            yield difference


class Member(NamedTuple):
    """A partition of a family, whose commands are decided again."""

    partition: int
    simulation: PartitionSimulation
    #: True: ignore `since`, and start at the first command. A child does so if its parent is simulated up to the split.
    is_whole: bool = False


def _differences(
    plan: WhatifPlan, log: PartitionLog, result: WhatifResult, log_progress: LogProgress, stack: ExitStack
) -> Iterator[HistoryDifference]:
    """Yield the differences of a partition, then of its descendants by number: a parent always comes before a child."""
    pending_members = [Member(log.partition, _open_simulation(plan, log, stack))]
    while pending_members:
        member = pending_members.pop(0)
        own_log = replace(log, partition=member.partition)
        try:
            yield from _member_differences(
                plan, own_log, result, log_progress, member, pending_members, stack
            )
        except HistoryError as error:
            hint = "check the history: cqrs verify"
            raise own_log.fault(error.log, error.offset, str(error), hint) from error
        pending_members.sort(key=attrgetter("partition"))


def _member_differences(
    plan: WhatifPlan,
    log: PartitionLog,
    result: WhatifResult,
    log_progress: LogProgress,
    member: Member,
    pending_members: list[Member],
    stack: ExitStack,
) -> Iterator[HistoryDifference]:
    """Yield the differences of one partition.

    A stage is the range of its commands that were decided with one partition count. If the partition was split at the
    end of a stage, its children are added to `pending_members`.
    """

    def records(kind: Kind, start: int, end: int) -> Iterator[Record]:
        read = log.events(start, end) if kind == "events" else log.read(kind, start, end)
        return chain.from_iterable(log_progress.track(read, start, end))

    # The end of the outcomes is read before the end of the events. So the events of each read outcome are read, too.
    outcome_bounds = log.bounds("outcomes")
    outcomes = Lookahead(decoded_outcomes(records("outcomes", *outcome_bounds)))
    start, end, until_offset = _command_range(plan, log, outcomes.next_command, result, member.is_whole)
    event_bounds = complete_bounds(log.connection, log.topics, [log.partition], "read_uncommitted")[
        log.partition
    ]
    log_progress.extend(sum(high - low for low, high in (outcome_bounds, event_bounds, (start, end))))
    events = Lookahead(decoded_events(records("events", *event_bounds)))
    simulation = member.simulation
    for stage in plan.key_space.key_stages(log.partition):
        if stage.partition_of is not None:
            simulation.owner.rules = replace(
                simulation.owner.rules,
                partition_of=stage.partition_of,
                forward_target_of=stage.forward_target_of,
            )
        simulation.fold_before(events.take_before(min(start, stage.end)))
        simulation.restore_decisions_before(outcomes.take_before(min(start, stage.end)))
        stage_start, stage_end = max(start, stage.start), min(end, stage.end)
        commands = records("commands", stage_start, stage_end) if stage_start < stage_end else iter(())
        yield from simulation.decide(join_history(commands, outcomes, events))
        if stage.children and (until_offset is None or until_offset >= stage.end):
            pending_members += [
                Member(child, simulation.child_simulation(child, stack), start < stage.end)
                for child in stage.children
            ]
        elif stage.children:
            break  # the split is after `until`
    yield from simulation.state_differences()
    result.commands += simulation.owner.decided_commands
    result.aggregates += simulation.aggregates
    result.skipped_commands += simulation.owner.skipped_commands


def _command_range(
    plan: WhatifPlan,
    log: PartitionLog,
    first_outcome_command: int | None,
    result: WhatifResult,
    is_whole: bool,
) -> tuple[int, int, int | None]:
    """Return (start, end, until_offset): the range [start, end) of commands to decide again, and the result of
    `plan.until_offset`.

    The range starts at the first command that still exists, has its outcome, and is not before `since`. With
    `is_whole`, `since` is ignored. The range ends after the last decided command, or at `until_offset` if that is
    lower. `first_outcome_command`: the command of the first outcome in the log; None if there is no outcome.
    """
    (first_retained, commands_end), (outcomes_start, outcomes_end) = (
        log.bounds("commands", "read_uncommitted"),
        log.bounds("outcomes"),
    )
    last_outcome = log.last_record("outcomes", outcomes_start, outcomes_end)
    until_offset = plan.until_offset(log, commands_end)
    if first_outcome_command is None or last_outcome is None:
        return commands_end, commands_end, until_offset
    first_existing = max(first_retained, first_outcome_command) if outcomes_start else first_retained
    first_requested = 0 if plan.since is None or is_whole else log.offset_at("commands", plan.since)
    start = commands_end if first_requested is None else max(first_existing, first_requested)
    result.is_incomplete |= (
        first_existing > 0
        and first_requested is not None
        and first_requested <= first_existing
        and (first_retained > 0 or outcomes_start > 0)
    )
    decided_end = read_outcome(last_outcome.value).data.offset + 1
    if until_offset is not None:
        decided_end = min(decided_end, until_offset)
    return start, max(start, decided_end), until_offset


def _open_simulation(plan: WhatifPlan, log: PartitionLog, stack: ExitStack) -> PartitionSimulation:
    name, codec = plan.aggregate_topics.topics.aggregate, plan.connection.payload_codec()
    rules = plan.decision_settings.rules(plan.aggregate_topics, log.partition, codec.payload_threshold)
    current_code = load(name, plan.package, plan.root)
    other_code = load_from(name, plan.module, plan.module_root)
    stores = open_stores(stack, rules.dedup_window)
    return PartitionSimulation(
        rules, current_code, other_code, *stores, codec, shares_stores=plan.key_space.was_repartitioned
    )
