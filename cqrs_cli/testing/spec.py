"""Specifications of aggregates: given events, when command, then outcome, as one expression with a readable failure."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, Generic, TypeVar

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command, Context, Decider, Event, State
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.testing.round_trip import (
    Decision,
    aggregate_of,
    context_of,
    decide_command,
    evolve_event,
    read_back,
)

_C = TypeVar("_C", bound=Command)
_S = TypeVar("_S", bound=State)
_E = TypeVar("_E", bound=Event)


def spec(decider: Decider[_C, _S, _E]) -> "Spec[_C, _S, _E]":
    """Return a specification of a decider, at version 0. Raises `TypeError` if its annotations are wrong."""
    aggregate = aggregate_of(decider)
    return Spec(aggregate, decider.initial)


@dataclass(frozen=True)
class Spec(Generic[_C, _S, _E]):
    """An aggregate at a version, in a state: the start of a test, to which `given` and `when` apply."""

    aggregate: Aggregate
    state: _S
    version: int = 0

    def given(self, *events: _E | Erased) -> "Spec[_C, _S, _E]":
        """Return the specification after these further events; `cqrs.Erased` needs personal fields in the aggregate."""
        __tracebackhide__ = True
        return Spec(self.aggregate, reduce(self._evolve, events, self.state), self.version + len(events))

    def when(self, command: _C, at: Context | datetime | None = None) -> "Outcome[_C, _S, _E]":
        """Decide a command, at this time or in this context.

        Defaults: the time 2000-01-01T00:00:00Z, and the number of events as version. Raises `TypeError` for a command
        that `decide` does not accept, `ValueError` for a time without a time zone.
        """
        __tracebackhide__ = True
        if type(command) not in self.aggregate.commands.values():
            known_names = ", ".join(cls.__name__ for cls in self.aggregate.commands.values())
            raise TypeError(f"{command!r} is not a command of this aggregate: decide takes {known_names}")
        return Outcome(self, command, decide_command(self.aggregate, self.state, command, self._context(at)))

    def _context(self, at: Context | datetime | None) -> Context:
        if isinstance(at, Context):
            return at
        if at is None:
            return context_of(self.version)
        if at.tzinfo is None:
            raise ValueError(f"{at!r} has no time zone: write datetime(…, tzinfo=UTC)")
        return context_of(self.version, at.astimezone(UTC))

    def _evolve(self, state: _S, event: Event) -> Any:
        __tracebackhide__ = True
        if isinstance(event, Erased) and self.aggregate.has_personal_fields:
            return self.aggregate.step(state, ERASED, encode_json(event))
        return evolve_event(self.aggregate, state, read_back(self.aggregate, event))


@dataclass(frozen=True)
class Outcome(Generic[_C, _S, _E]):
    """The outcome of a command. Every check raises `AssertionError` or returns the outcome for the next check."""

    before: Spec[_C, _S, _E]
    command: _C
    decision: Decision

    def then(self, *events: _E) -> "Outcome[_C, _S, _E]":
        """Check that the command was accepted with exactly these events in this order."""
        __tracebackhide__ = True
        if not events:
            raise TypeError("then() needs events; use unchanged() to check that there is none")
        if self.decision.events != events:
            raise self._failure(
                [repr(event) for event in events], *_differences(self.decision.events, events)
            )
        return self

    def rejected(self, code: str | None = None, message: str | None = None) -> "Outcome[_C, _S, _E]":
        """Check that the command was rejected, with this code and message if given."""
        __tracebackhide__ = True
        rejection = self.decision.rejected
        if (
            rejection is None
            or (code is not None and rejection.code != code)
            or (message is not None and rejection.message != message)
        ):
            expectation = "rejected" + (f" with {code}" if code else "") + (f": {message}" if message else "")
            raise self._failure([expectation])
        return self

    def deferred(self, after: timedelta | None = None, reason: str | None = None) -> "Outcome[_C, _S, _E]":
        """Check that `decide` raised `cqrs.Later`, with this delay and reason if given."""
        __tracebackhide__ = True
        later = self.decision.deferred
        if (
            later is None
            or (after is not None and later.after != after)
            or (reason is not None and later.reason != reason)
        ):
            expectation = "deferred" + (f" for {after}" if after else "") + (f": {reason}" if reason else "")
            raise self._failure([expectation])
        return self

    def unchanged(self) -> "Outcome[_C, _S, _E]":
        """Check that the command was valid and caused no event."""
        __tracebackhide__ = True
        if self.decision != Decision():
            raise self._failure(["no event"])
        return self

    def state(self, expected: _S) -> "Outcome[_C, _S, _E]":
        """Check the state after the command."""
        __tracebackhide__ = True
        found = self._spec_after().state
        if found != expected:
            differences = "".join(f"\n  {line}" for line in _differing_fields(found, expected))
            raise AssertionError(
                f"{self._given_and_when()}\nexpected state:\n  {expected!r}\nfound:\n  {found!r}{differences}"
            )
        return self

    def when(self, command: _C, at: Context | datetime | None = None) -> "Outcome[_C, _S, _E]":
        """Decide another command in the state after this command."""
        return self._spec_after().when(command, at)

    def _spec_after(self) -> Spec[_C, _S, _E]:
        return self.before.given(*self.decision.events)  # type: ignore[arg-type]

    def _given_and_when(self) -> str:
        return f"in state:\n  {self.before.state!r}\nwhen:\n  {self.command!r}"

    def _failure(self, expected: list[str], *details: str) -> AssertionError:
        found = [repr(event) for event in self.decision.events] or self.decision.as_lines()
        parts = [self._given_and_when()]
        for title, lines in (("expected", expected), ("found", found), ("that is", list(details))):
            if lines:
                parts.append(f"{title}:\n  " + "\n  ".join(lines))
        return AssertionError("\n".join(parts))


def _differences(found: tuple[Event, ...], expected: tuple[Event, ...]) -> list[str]:
    """Describe the differences: the number of events, or the differing fields of each event."""
    if found and len(found) != len(expected):
        return [f"{len(found)} events instead of {len(expected)}"]
    return [
        f"event {number}: {line}"
        for number, (actual, wanted) in enumerate(zip(found, expected, strict=False), start=1)
        if type(actual) is type(wanted)
        for line in _differing_fields(actual, wanted)
    ]


def _differing_fields(found: msgspec.Struct, expected: msgspec.Struct) -> list[str]:
    if type(found) is not type(expected):
        return []
    pairs = ((field, getattr(found, field), getattr(expected, field)) for field in found.__struct_fields__)
    return [
        f"{field} is {actual!r}, expected {wanted!r}" for field, actual, wanted in pairs if actual != wanted
    ]
