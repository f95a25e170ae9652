"""Breadth-first search of all reachable worlds, so that a counterexample is as short as possible."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

from tests.model.broker import Broker, committed_records
from tests.model.deciding import reference
from tests.model.rules import Rules
from tests.model.steps import steps
from tests.model.world import Driver, Scenario, Shard, World

AnyWorld = TypeVar("AnyWorld")


class Counterexample(NamedTuple):
    """The steps that lead to a broken promise."""

    broken_promise: str
    trace: list[str]

    @classmethod
    def here(cls, broken_promise: str) -> "Counterexample | None":
        """Return a counterexample for a world that breaks a promise itself; None for an empty `broken_promise`."""
        return cls(broken_promise, []) if broken_promise else None

    def __str__(self) -> str:
        lines = [f"{number:3} {label}" for number, label in enumerate(self.trace, 1)]
        return "\n".join([f"{self.broken_promise}:", *lines])


class SearchResult(NamedTuple):
    """The number of worlds, and the first counterexample."""

    worlds: int
    counterexample: Counterexample | None

    def check_kept(self, name: str) -> None:
        """Assert that the scenario breaks no promise."""
        print(f"{name}: {self.worlds:,} worlds")
        assert self.counterexample is None, str(self.counterexample)

    def check_broken(self, broken_promise: str) -> None:
        """Assert that this promise is broken, because the scenario leaves out a rule."""
        counterexample = self.counterexample
        assert counterexample is not None, (
            "no promise is broken: the rule is not needed, or the model cannot show why it is"
        )
        print(counterexample)
        assert counterexample.broken_promise.startswith(broken_promise), str(counterexample)


def explore(scenario: Scenario, rules: Rules, max_worlds: int = 10_000_000) -> SearchResult:
    """Visit worlds, at most `max_worlds`, until a promise is broken."""
    progress = Progress(scenario, rules)
    return visit(
        scenario.first_world(),
        lambda world: [*steps(scenario, rules, world)],
        lambda world, _: progress.find_counterexample(world),
        max_worlds,
    )


def visit(
    first_world: AnyWorld,
    next_steps: Callable[[AnyWorld], Sequence[tuple[str, AnyWorld, str]]],
    check_world: Callable[[AnyWorld, list[str]], Counterexample | None],
    max_worlds: int,
) -> SearchResult:
    """Visit worlds of a model, at most `max_worlds`, until a promise is broken.

    `next_steps` returns the steps from a world: label, next world, and broken promise or an empty text. `check_world`
    gets a world and the labels of the steps from it, and returns a counterexample if the world breaks a promise.
    """
    origins: dict[AnyWorld, tuple[AnyWorld, str] | None] = {first_world: None}
    queue = deque([first_world])
    while queue and len(origins) < max_worlds:
        world = queue.popleft()
        steps_from = next_steps(world)
        broken_steps = (Counterexample(promise, [label]) for label, _, promise in steps_from if promise)
        labels = [label for label, _, _ in steps_from]
        counterexample = check_world(world, labels) or next(broken_steps, None)
        if counterexample:
            full_trace = [*trace(origins, world), *counterexample.trace]
            return SearchResult(len(origins), Counterexample(counterexample.broken_promise, full_trace))
        for label, after, _ in steps_from:
            if after not in origins:
                origins[after] = world, label
                queue.append(after)
    return SearchResult(len(origins), None)


def trace(origins: Mapping[AnyWorld, tuple[AnyWorld, str] | None], world: AnyWorld) -> list[str]:
    """Return the labels of the steps that led to a world."""
    labels = []
    while (origin := origins[world]) is not None:
        world, label = origin
        labels.append(label)
    return labels[::-1]


class Progress:
    """Checks that from any world a later run decides all remaining commands, on any machine and without faults."""

    def __init__(self, scenario: Scenario, rules: Rules) -> None:
        self._scenario = replace(scenario, owners=((99, 0),), machines=(0,), starts=2)
        self._rules = rules
        self._counterexamples: dict[tuple[Broker, Shard], Counterexample | None] = {}
        self._cached_finish = lru_cache(maxsize=None)(self._finish)

    def find_counterexample(self, world: World) -> Counterexample | None:
        """Return the reason why a later run cannot finish; None if it can.

        An open transaction is aborted first: the world in which it commits is checked on its own."""
        for shard in {*world.shards, Shard()}:
            key = world.broker, shard
            if key not in self._counterexamples:
                self._counterexamples[key] = self._cached_finish(world.broker.after_all_ends(), shard)
            if (counterexample := self._counterexamples[key]) is not None:
                return counterexample
        return None

    def _finish(self, broker: Broker, shard: Shard) -> Counterexample | None:
        world = World(broker, (shard,), (self._scenario.owner(99),), Driver("gone"), 0)
        labels = ["a later run starts, and no further fault happens"]
        while world.owners[0].step != "gone":
            next_step = next(steps(self._scenario, self._rules, world), None)
            if next_step is None or len(labels) > 100:
                return Counterexample("a later run does not end", labels)
            labels.append(next_step.label)
            world = next_step.world
            if next_step.broken_promise:
                return Counterexample(next_step.broken_promise, labels)
        expected = reference(self._scenario.commands)
        broker, shard = world.broker, world.shards[0]
        result = (
            committed_records(broker.outcomes, False),
            committed_records(broker.events, False),
            shard.state,
        )
        if result != (expected.outcomes, expected.events, expected.states[-1]):
            return Counterexample("a later run does not complete the sequential result", labels)
        return None
