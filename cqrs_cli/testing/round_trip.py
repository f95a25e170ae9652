"""Decides and folds for tests as owners and readers do: every event and state is encoded and decoded."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command, Context, Decider, Event, Rejected, State
from cqrs_cli.core.aggregate.errors import describe_error
from cqrs_cli.core.context import MAX_EVENTS
from cqrs_cli.core.deferral.later import Later
from cqrs_cli.core.messages.json import encode_json

_Message = TypeVar("_Message", Event, State)


class BrokenLaw(AssertionError):
    """The aggregate breaks a law: owners could not decide its commands, or a replay could get another state.

    The text starts with file and line of the function, and the broken law; then come details, one on each line.
    """

    def __init__(
        self, broken_law: str, *details: str, line: str = "", function: Callable[..., object] | None = None
    ) -> None:
        location = line or (line_of(function) if function else "")
        super().__init__((f"{location}: " if location else "") + "\n  ".join([broken_law, *details]))


def line_of(function: Callable[..., object]) -> str:
    """Return the start of a function, such as `bank_account.py:60`; empty for a callable without Python code."""
    code = getattr(function, "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code else ""


class TimedCommand(NamedTuple):
    """A command of a random history. The version in `context` is set when the command is decided."""

    command: Command
    context: Context


class Decision(NamedTuple):
    """The decision on a command: its decoded events, the rejection, or the deferral."""

    events: tuple[Event, ...] = ()
    rejected: Rejected | None = None
    deferred: Later | None = None

    def as_lines(self) -> list[str]:
        """Return the decision as text lines; equal decisions have equal lines in every process."""
        if self.rejected is not None:
            return [f"rejected with {self.rejected.code}: {self.rejected.message}"]
        if self.deferred is not None:
            return [f"deferred for {self.deferred.after}: {self.deferred.reason}"]
        return [f"{type(event).__name__} {encode_json(event).decode()}" for event in self.events] or [
            "no event"
        ]


def aggregate_of(decider: Decider[Any, Any, Any]) -> Aggregate:
    """Return the aggregate of a decider, named after the module of its `decide`."""
    return Aggregate.of(decider.decide.__module__.rpartition(".")[2], decider)


def context_of(version: int, time: datetime = datetime(2000, 1, 1, tzinfo=UTC), number: int = 1) -> Context:
    """Return the default context of a command; `number` determines the command's id."""
    return Context("id-1", version, time, f"command-{number}", f"command-{number}")


def decide_command(aggregate: Aggregate, state: State, command: Command, context: Context) -> Decision:
    """Return the decision; raises `BrokenLaw` for a value that is not an event.

    `context` is for a `decide` with three parameters. Errors of `decide` other than `Rejected` and `Later` are not
    caught.
    """
    __tracebackhide__ = True
    decide: Callable[..., Iterable[Event]] = aggregate.decider.decide
    arguments = (command, state, context) if aggregate.decides_with_context else (command, state)
    try:
        events = tuple(islice(decide(*arguments), MAX_EVENTS + 1))
    except Rejected as rejected:
        return Decision(rejected=rejected)
    except Later as deferred:
        return Decision(deferred=deferred)
    if len(events) > MAX_EVENTS:
        raise BrokenLaw(f"decide yields more than {MAX_EVENTS} events", repr(command), function=decide)
    return Decision(tuple(read_back(aggregate, event) for event in events))


def read_back(aggregate: Aggregate, event: Event) -> Event:
    """Return the event as a reader of the log decodes it; raises `BrokenLaw` if it differs from the written event."""
    __tracebackhide__ = True
    decide, name = aggregate.decider.decide, type(event).__name__
    wire_type = aggregate.event_types.get(type(event))
    if wire_type is None:
        known_names = ", ".join(cls.__name__ for cls in aggregate.event_types)
        raise BrokenLaw(
            f"{event!r} is not an event of this aggregate: evolve takes {known_names}", function=decide
        )
    try:
        aggregate.check_values(event)
        decoded = aggregate.decode_event[wire_type](encode_json(event))
    except (ValueError, TypeError) as error:
        raise BrokenLaw(f"{name} does not survive the wire: {error}", repr(event), function=decide) from error
    if decoded != event:
        raise BrokenLaw(
            f"{name} does not survive the wire: it is decoded to another value",
            repr(event),
            repr(decoded),
            function=decide,
        )
    return decoded


def evolve_event(aggregate: Aggregate, state: State, event: Event) -> State:
    """Return the next state; raises `BrokenLaw` if it does not survive encoding. Passes on errors of `evolve`."""
    __tracebackhide__ = True
    evolve = aggregate.decider.evolve
    next_state = evolve(state, event)
    if type(next_state) is not aggregate.state:
        raise BrokenLaw(
            f"evolve returned {next_state!r}, not {aggregate.state.__name__}", repr(event), function=evolve
        )
    decoded = round_trip(aggregate, next_state)
    if decoded != next_state:
        raise BrokenLaw(
            f"{type(next_state).__name__} does not survive being stored: it is decoded to another value",
            repr(next_state),
            repr(decoded),
            function=evolve,
        )
    return next_state


def round_trip(aggregate: Aggregate, state: State) -> State:
    """Return the state as the store decodes it; raises `BrokenLaw` if it cannot be encoded or decoded."""
    __tracebackhide__ = True
    try:
        return aggregate.decode_state(aggregate.encode_checked(state))
    except (ValueError, TypeError) as error:
        raise BrokenLaw(
            f"{type(state).__name__} does not survive being stored: {error}",
            repr(state),
            function=aggregate.decider.evolve,
        ) from error


def without_personal(aggregate: Aggregate, message: _Message) -> _Message:
    """Return the event or state with redacted personal fields; raises `BrokenLaw` if its class rejects them."""
    __tracebackhide__ = True
    try:
        return aggregate.personal.redact(message)
    except Exception as error:  # raised by the `__post_init__` of the message's class
        raise BrokenLaw(
            f"{type(message).__name__} cannot be erased: {describe_error(error)}",
            repr(message),
            function=aggregate.decider.evolve,
        ) from error
