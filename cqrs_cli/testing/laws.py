"""Checks the laws that let an aggregate be decided anywhere and replayed to the same state, with random commands."""

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command, Context, Decider, Event, State
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.aggregate.errors import describe_error, error_line
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.testing.hash_seed import check_hash_seed
from cqrs_cli.testing.round_trip import (
    BrokenLaw,
    Decision,
    TimedCommand,
    aggregate_of,
    decided,
    evolved,
    round_trip,
    without_personal,
)
from cqrs_cli.testing.samples import Samples, check_samples

_Value = TypeVar("_Value")
History = list[TimedCommand]


def check_laws(module: ModuleType, *, examples: int = 200, samples: Samples | None = None) -> None:
    """Check `laws` of a module's decider, and that a process with another hash seed makes the same decisions.

    Raises `BrokenLaw`. Needs hypothesis; the module must be importable by its name.
    """
    __tracebackhide__ = True
    aggregate = aggregate_of(module.decider)
    check_samples(aggregate, samples or {})
    check_hash_seed(module, _check(aggregate, examples))


def laws(decider: Decider[Any, Any, Any], *, examples: int = 200, samples: Samples | None = None) -> None:
    """Check a decider with random histories of commands, drawn from the annotations of `decide`; raises `BrokenLaw`.

    1. `decide` returns events or raises `Rejected`, nothing else, and a second call has the same result.
    2. `decide` has the same result for a state that was stored and loaded: the order of a dict or set does not matter.
    3. `decide` and `evolve` do not modify their arguments.
    4. Events survive encoding, and states survive storing: all numbers are finite, all values have their annotated
       types.
    5. `evolve` accepts every event that `decide` returns, and returns the same state each time.
    6. The data of retired events are readable: `samples`, bytes by event name, with at least one sample for every
       upcaster. A dict from bytes to events gives the expected event of each sample. An upcaster with the name of a
       current event returns current data unchanged (law 4).
    7. Other values do not depend on personal values: `mask(evolve(s, e)) == mask(evolve(mask(s), mask(e)))`. An
       aggregate that is erased after each event keeps the laws, too.
    """
    __tracebackhide__ = True
    aggregate = aggregate_of(decider)
    check_samples(aggregate, samples or {})
    _check(aggregate, examples)


def _check(aggregate: Aggregate, examples: int) -> list[History]:
    """Check random histories, and return them."""
    try:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis.errors import Flaky
    except ImportError as error:
        raise ImportError("the laws draw random commands with hypothesis: pip install hypothesis") from error
    from cqrs_cli.testing.strategies import histories

    tried: list[History] = []
    broken: list[BrokenLaw] = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=set(Phase) - {Phase.explain},  # this phase is the slowest, and reports lines of this package
        suppress_health_check=list(HealthCheck),
    )
    @given(histories(aggregate))
    def keeps_the_laws(commands: History) -> None:
        tried.append(commands)
        try:
            _walk(aggregate, commands)
            if aggregate.has_personal_fields:
                _walk(aggregate, commands, erased=True)
        except BrokenLaw as error:
            broken.append(error)
            raise

    __tracebackhide__ = True
    try:
        keeps_the_laws()
    except Flaky:  # a random result fails differently each time
        if not broken:
            raise
        raise broken[0].with_traceback(None) from None
    except BrokenLaw as error:
        raise error.with_traceback(None)  # noqa: B904 - the same one, without the way through the drawing
    return tried


def _walk(aggregate: Aggregate, commands: Iterable[TimedCommand], erased: bool = False) -> None:
    """Decide a history; with `erased` the state is erased after each event."""
    state: State = aggregate.decider.initial
    version = 0
    for command, at in commands:
        for event in _decide(aggregate, state, command, replace(at, version=version)).events:
            state = _evolve(aggregate, state, event)
            state = _erase(aggregate, state) if erased else state
            version += 1


def _decide(aggregate: Aggregate, state: State, command: Command, at: Context) -> Decision:
    def run(given: State) -> tuple[Decision, str]:
        __tracebackhide__ = True
        outcome = decided(aggregate, given, command, at)
        return outcome, ", ".join(outcome.spelled())

    __tracebackhide__ = True
    asked = (command, state, at) if aggregate.decide_with_context else (command, state)
    call = _Call("decide", aggregate.decider.decide, asked)
    return _same_each_time(call, run, aggregate, state, command)


def _evolve(aggregate: Aggregate, state: State, event: Event) -> State:
    __tracebackhide__ = True
    call, after = _evolve_alike(aggregate, state, event)
    if aggregate.has_personal_fields:
        given = without_personal(aggregate, state), without_personal(aggregate, event)
        call, after_masks = _evolve_alike(aggregate, *given)
        without, wanted = without_personal(aggregate, after_masks), without_personal(aggregate, after)
        if without != wanted:
            raise call.broken(
                "lets what is not personal depend on what is",
                f"without personal values it gives {encode_json(without).decode()}",
                f"with them {encode_json(wanted).decode()}",
            )
    return after


def _erase(aggregate: Aggregate, state: State) -> State:
    __tracebackhide__ = True
    left = without_personal(aggregate, state)
    if not aggregate.evolves_erased:
        return left
    return without_personal(aggregate, _evolve_alike(aggregate, left, Erased("a key"))[1])


def _evolve_alike(aggregate: Aggregate, state: State, event: Event) -> tuple["_Call", State]:
    def run(at: State) -> tuple[State, str]:
        __tracebackhide__ = True
        after = evolved(aggregate, at, event)
        return after, encode_json(after).decode()

    __tracebackhide__ = True
    call = _Call("evolve", aggregate.decider.evolve, (state, event))
    return call, _same_each_time(call, run, aggregate, state, event)


class _Call(NamedTuple):
    """A call of one of the aggregate's functions."""

    name: str
    function: Callable[..., object]
    given: tuple[object, ...]

    def broken(self, verdict: str, *details: str) -> BrokenLaw:
        return BrokenLaw(f"{self.name} {verdict}", self.spelled(), *details, of=self.function)

    def spelled(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.given))})"


def _same_each_time(
    call: _Call,
    run: Callable[[State], tuple[_Value, str]],
    aggregate: Aggregate,
    state: State,
    message: Command | Event,
) -> _Value:
    """Return the value of `run`, and check that it is the same in a second call and for a stored state.

    Also check that `run` does not modify its input.
    """
    __tracebackhide__ = True
    given = encode_json([state, message])
    try:
        value, first = run(state)
        _, again = run(state)
        changed = encode_json([state, message]) != given
        _, stored = run(round_trip(aggregate, state))
    except BrokenLaw:
        raise
    except Exception as error:
        verdict = f"{call.name} raised {describe_error(error)}"
        raise BrokenLaw(
            verdict, call.spelled(), at=error_line(error.__traceback__, aggregate.package), of=call.function
        ) from error
    if changed:
        now = encode_json([state, message]).decode()
        raise call.broken("changed what it was given", f"given {given.decode()}", f"now {now}")
    if again != first:
        raise call.broken("depends on chance or time", f"first it gives {first}", f"then {again}")
    if stored != first:
        raise call.broken(
            "depends on the order of a dict or set",
            f"first it gives {first}",
            f"once the state was stored {stored}",
        )
    return value
