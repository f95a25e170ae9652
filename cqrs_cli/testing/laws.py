"""Checks, with random commands, the laws that let an aggregate be decided anywhere and replayed to the same state."""

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
    decide_command,
    evolve_event,
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
    check_hash_seed(module, _check_random_histories(aggregate, examples))


def laws(decider: Decider[Any, Any, Any], *, examples: int = 200, samples: Samples | None = None) -> None:
    """Check a decider with random histories of commands, drawn from the annotations of `decide`; raises `BrokenLaw`.

    1. `decide` returns events or raises `Rejected` or `Later`, nothing else, and a second call has the same result.
    2. `decide` has the same result for a state that was stored and loaded: the order of a dict or set does not matter.
    3. `decide` and `evolve` do not modify their arguments.
    4. Events survive encoding, and states survive storing: all numbers are finite, all values have their annotated
       types.
    5. `evolve` accepts every event that `decide` returns, and returns the same state each time.
    6. The data of retired events are readable. `samples` has, by event name, data as they were written, or a dict from
       such data to the expected event. Every upcaster needs at least one sample. An upcaster with the name of a current
       event returns current data unchanged; law 4 checks it.
    7. Other values do not depend on personal values: `redact(evolve(s, e)) == redact(evolve(redact(s), redact(e)))`. An
       aggregate that is erased after each event keeps the laws, too.
    """
    __tracebackhide__ = True
    aggregate = aggregate_of(decider)
    check_samples(aggregate, samples or {})
    _check_random_histories(aggregate, examples)


def _check_random_histories(aggregate: Aggregate, examples: int) -> list[History]:
    """Check random histories, and return them. Raises `BrokenLaw` for the shortest failing history that was found."""
    try:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis.errors import Flaky
    except ImportError as error:
        raise ImportError("the laws draw random commands with hypothesis: pip install hypothesis") from error
    from cqrs_cli.testing.strategies import histories

    tried_histories: list[History] = []
    broken_laws: list[BrokenLaw] = []

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
        tried_histories.append(commands)
        try:
            _check_history(aggregate, commands)
            if aggregate.has_personal_fields:
                _check_history(aggregate, commands, erased=True)
        except BrokenLaw as error:
            broken_laws.append(error)
            raise

    __tracebackhide__ = True
    try:
        keeps_the_laws()
    except Flaky:  # `decide` or `evolve` has random results, so a second run fails differently
        if not broken_laws:
            raise
        raise broken_laws[0].with_traceback(None) from None
    except BrokenLaw as error:
        raise error.with_traceback(None)  # noqa: B904 - the same error, without the stack of hypothesis
    return tried_histories


def _check_history(aggregate: Aggregate, commands: Iterable[TimedCommand], erased: bool = False) -> None:
    """Decide a history; with `erased` the state is erased after each event."""
    state: State = aggregate.decider.initial
    version = 0
    for command, context in commands:
        for event in _check_decide(aggregate, state, command, replace(context, version=version)).events:
            state = _check_evolve(aggregate, state, event)
            state = _erase(aggregate, state) if erased else state
            version += 1


def _check_decide(aggregate: Aggregate, state: State, command: Command, context: Context) -> Decision:
    """Return the decision, and check the laws 1 to 4."""

    def run(stored_state: State) -> tuple[Decision, str]:
        __tracebackhide__ = True
        decision = decide_command(aggregate, stored_state, command, context)
        return decision, ", ".join(decision.as_lines())

    __tracebackhide__ = True
    arguments = (command, state, context) if aggregate.decides_with_context else (command, state)
    call = _Call("decide", aggregate.decider.decide, arguments)
    return _check_repeatable(call, run, aggregate, state, command)


def _check_evolve(aggregate: Aggregate, state: State, event: Event) -> State:
    """Return the next state, and check the laws 2 to 5 and 7."""
    __tracebackhide__ = True
    call, after = _evolve_twice(aggregate, state, event)
    if aggregate.has_personal_fields:
        redacted = without_personal(aggregate, state), without_personal(aggregate, event)
        call, state_after_redaction = _evolve_twice(aggregate, *redacted)
        redacted_result, expected = (
            without_personal(aggregate, state_after_redaction),
            without_personal(aggregate, after),
        )
        if redacted_result != expected:
            raise call.law_error(
                "lets other values depend on personal values",
                f"without personal values it gives {encode_json(redacted_result).decode()}",
                f"with them {encode_json(expected).decode()}",
            )
    return after


def _erase(aggregate: Aggregate, state: State) -> State:
    """Return the state after the erasure of its personal data."""
    __tracebackhide__ = True
    redacted = without_personal(aggregate, state)
    if not aggregate.evolves_erased:
        return redacted
    return without_personal(aggregate, _evolve_twice(aggregate, redacted, Erased("a key"))[1])


def _evolve_twice(aggregate: Aggregate, state: State, event: Event) -> tuple["_Call", State]:
    """Return the call of `evolve`, for error texts, and its result. Check that the result is the same each time."""

    def run(stored_state: State) -> tuple[State, str]:
        __tracebackhide__ = True
        after = evolve_event(aggregate, stored_state, event)
        return after, encode_json(after).decode()

    __tracebackhide__ = True
    call = _Call("evolve", aggregate.decider.evolve, (state, event))
    return call, _check_repeatable(call, run, aggregate, state, event)


class _Call(NamedTuple):
    """A call of one of the aggregate's functions."""

    name: str
    function: Callable[..., object]
    arguments: tuple[object, ...]

    def law_error(self, verdict: str, *details: str) -> BrokenLaw:
        return BrokenLaw(f"{self.name} {verdict}", self.as_text(), *details, function=self.function)

    def as_text(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


def _check_repeatable(
    call: _Call,
    run: Callable[[State], tuple[_Value, str]],
    aggregate: Aggregate,
    state: State,
    message: Command | Event,
) -> _Value:
    """Return the value of `run(state)`, and check that it is the same in a second call and for a stored state.

    `run` returns a value, and the value as text for comparisons and errors. Also check that it does not modify its
    input.
    """
    __tracebackhide__ = True
    before = encode_json([state, message])
    try:
        value, first_text = run(state)
        _, second_text = run(state)
        was_modified = encode_json([state, message]) != before
        _, after_storing = run(round_trip(aggregate, state))
    except BrokenLaw:
        raise
    except Exception as error:
        verdict = f"{call.name} raised {describe_error(error)}"
        raise BrokenLaw(
            verdict,
            call.as_text(),
            line=error_line(error.__traceback__, aggregate.package),
            function=call.function,
        ) from error
    if was_modified:
        after = encode_json([state, message]).decode()
        raise call.law_error("modified its arguments", f"before {before.decode()}", f"after {after}")
    if second_text != first_text:
        raise call.law_error(
            "depends on chance or time", f"first it gives {first_text}", f"then {second_text}"
        )
    if after_storing != first_text:
        raise call.law_error(
            "depends on the order of a dict or set",
            f"first it gives {first_text}",
            f"after the state was stored {after_storing}",
        )
    return value
