"""An aggregate whose commands each request another kind of misbehaviour."""

from collections.abc import Iterator

import cqrs_cli as cqrs


class Behave(cqrs.Command):
    """Write one event."""


class Raise(cqrs.Command):
    """Fail, after the first event."""


class Flood(cqrs.Command):
    """Write many events."""

    count: int


class Fatten(cqrs.Command):
    """Write one large event that compresses well."""

    size: int


class Lie(cqrs.Command):
    """Yield a value that is not an event."""


class Choke(cqrs.Command):
    """Write an event for which `evolve` fails."""


class Average(cqrs.Command):
    """Write a number that JSON cannot represent."""


class Happened(cqrs.Event):
    text: str = ""
    number: float = 0.0


class EventCount(cqrs.State):
    count: int = 0


def decide(
    command: Behave | Raise | Flood | Fatten | Lie | Choke | Average, state: EventCount
) -> Iterator[Happened]:
    match command:
        case Behave():
            yield Happened()
        case Raise():
            yield Happened()
            raise ZeroDivisionError("division by zero")
        case Flood(count):
            yield from (Happened() for _ in range(count))
        case Fatten(size):
            yield Happened("x" * size)
        case Lie():
            yield "happened"  # type: ignore[misc]
        case Choke():
            yield Happened("bone")
        case Average():
            yield Happened(number=float("nan"))


def evolve(state: EventCount, event: Happened) -> EventCount:
    if event.text == "bone":
        raise RuntimeError("cannot fold this event")
    return EventCount(state.count + 1)


decider = cqrs.Decider(decide, evolve, initial=EventCount())
