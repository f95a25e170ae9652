"""Histories in memory, decided again by other code."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import inf
from typing import NamedTuple

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import MAX_BYTES, BatchContext
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.decision_rules import DecisionRules
from cqrs_cli.core.deferral.deferrals import DeferralLimits
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.whatif.decided import Lookahead, decoded_events, decoded_outcomes, join_history
from cqrs_cli.proof.whatif.difference import HistoryDifference
from cqrs_cli.scans.whatif.simulation import BATCH_SIZE, PartitionSimulation
from cqrs_cli.scans.whatif.stores import open_stores
from tests.core.deferral.world import World
from tests.proof import history as tally
from tests.proof.deferral_histories import log_records
from tests.proof.history import AGGREGATE, PARTITION, TOPIC, WINDOW, Add, Added, History, Tally, partition_of

RULES = DecisionRules(PARTITION, TOPIC, "", partition_of, None, WINDOW, MAX_BYTES, DeferralLimits(), inf)


def tally_with(
    decide: Callable[[Add, Tally], Iterator[Added]] = tally.decide,
    evolve: Callable[[Tally, Added], Tally] = tally.evolve,
) -> Aggregate:
    """Return the aggregate of the histories with some functions replaced."""
    return Aggregate.of("tally", cqrs.Decider(decide, evolve, Tally()))


def differences_of(
    history: History, other: Aggregate = AGGREGATE, start: int = 0, batch: int = BATCH_SIZE
) -> list[HistoryDifference]:
    """Return the differences of the commands from an offset on."""
    logs = Logs(history.commands, history.outcomes, history.events)
    return simulate_history(logs, RULES, AGGREGATE, other, start, batch)


class Logs(NamedTuple):
    """The logs of a simulation."""

    commands: list[Record]
    outcomes: list[Record]
    events: list[Record]


def logs_of(world: World) -> Logs:
    """Return the commands of clients and an owner's results, as far as the commands were decided."""
    commands = [world.record(offset) for offset in range(world.position)]
    return Logs(commands, log_records(world.outcomes), log_records(world.events))


def simulate_history(
    logs: Logs,
    rules: DecisionRules,
    current: Aggregate,
    other: Aggregate,
    start: int = 0,
    batch: int = BATCH_SIZE,
) -> list[HistoryDifference]:
    outcomes = Lookahead(decoded_outcomes(logs.outcomes))
    events = Lookahead(decoded_events(logs.events))
    with ExitStack() as stack:
        simulation = PartitionSimulation(
            rules, current, other, *open_stores(stack, rules.dedup_window), batch_size=batch
        )
        simulation.fold_before(events.take_before(start))
        simulation.restore_decisions_before(outcomes.take_before(start))
        commands = [record for record in logs.commands if record.offset >= start]
        differences = list(simulation.decide(join_history(commands, outcomes, events)))
        return [*differences, *simulation.state_differences()]


def decisions_of(history: History, other: Aggregate) -> dict[int, list[object]]:
    """Return the other code's decision on each command: its outcome, without our own messages, and its events."""
    context = BatchContext(PARTITION, lambda _: None, lambda *_: None, lambda: 0, partition_of, TOPIC, WINDOW)
    decisions = decide_batch(other, history.commands, context)
    decisions_by_offset: dict[int, list[object]] = {}
    for value, _, _ in decisions.outcomes:
        verdict = read_outcome(value).data
        if verdict.reason != "BUSINESS_RULE":
            verdict.message = ""
        decisions_by_offset[verdict.offset] = [verdict]
    for value, _, _ in decisions.events:
        decisions_by_offset[read_event(value).position()[1]].append(value)
    return decisions_by_offset
