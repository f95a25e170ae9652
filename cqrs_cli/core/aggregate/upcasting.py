"""Upcasters: functions that turn the data of an event as it was once written into an event of today."""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cqrs_cli.core.aggregate.decider import Decider, Event
from cqrs_cli.core.aggregate.invalid import PROCESS_ERRORS, InvalidAggregate

#: From the data of an event, a dict, to an event of today.
Upcaster = Callable[[dict[str, Any]], Event]


class UpcastError(ValueError):
    """An upcaster raised, or gave something that is not an event of today."""


def upcasters_of(decider: Decider[Any, Any, Any], events: Mapping[str, type[Event]]) -> dict[str, Upcaster]:
    """The decider's upcasters by the name of their event, checked; raises `InvalidAggregate` saying what to write.

    `events` are the events of today by name. An upcaster may bear the name of one: then it gets old and new data alike.
    """
    if not isinstance(decider.upcasters, Mapping):
        raise InvalidAggregate(
            f"upcasters must be a dict from an event's name to a function, found {decider.upcasters!r}",
            decider.evolve,
        )
    for name, upcaster in decider.upcasters.items():
        if not (isinstance(name, str) and name.isidentifier()):
            raise InvalidAggregate(
                f"upcasters: {name!r} is not the name of an event; write it as its class was called, 'Deposited'",
                decider.evolve,
            )
        _require_function(name, upcaster, decider)
        _require_events(name, upcaster, events)
    return dict(decider.upcasters)


def _require_function(name: str, upcaster: object, decider: Decider[Any, Any, Any]) -> None:
    problem = f"the upcaster of {name} must be a function of one parameter, the old data (a dict)"
    if not callable(upcaster):
        raise InvalidAggregate(f"{problem}, found {upcaster!r}", decider.evolve)
    if inspect.iscoroutinefunction(upcaster):
        raise InvalidAggregate(f"{problem}, not `async def`: it is a pure function", upcaster)
    try:
        inspect.signature(upcaster).bind({})
    except (TypeError, ValueError):
        raise InvalidAggregate(problem, upcaster) from None


def _require_events(name: str, upcaster: Upcaster, events: Mapping[str, type[Event]]) -> None:
    """Refuse a function whose annotation says that it gives an event that `evolve` does not take."""
    try:
        said = typing.get_type_hints(upcaster).get("return")
    except (NameError, AttributeError, TypeError):
        return  # no function with annotations, or a name that only type checkers know: found when it is called
    for member in typing.get_args(said) or (said,):
        is_event = isinstance(member, type) and issubclass(member, Event) and member is not Event
        if is_event and member not in events.values():
            raise InvalidAggregate(
                f"the upcaster of {name} gives {member.__name__}, which evolve does not take", upcaster
            )


def upcasting(
    name: str,
    upcaster: Upcaster,
    raised: Callable[[BaseException], str],
    read_back: Callable[[Event], Event],
    shows_values: bool,
) -> Callable[[bytes], Event]:
    """A decoder of the events called `name`, old and new. `read_back` gives the event as if it had been written today;
    it raises `TypeError` for what is not one. All errors become `UpcastError`; `raised` puts the upcaster's own into
    words, and without `shows_values` none has a value: old data have no marks.
    """

    def decode(data: bytes) -> Event:
        old = msgspec.json.decode(data)
        if not isinstance(old, dict):
            found = f": {bytes(data)[:60]!r}" if shows_values else ""
            raise UpcastError(f"the data of {name} is not an object of its fields{found}")
        try:
            event = upcaster(old)
        except (KeyboardInterrupt, *PROCESS_ERRORS):
            raise
        except BaseException as error:  # the aggregate's own code: anything may come
            raise UpcastError(f"the upcaster of {name} raised {raised(error)}") from error
        try:
            return read_back(event)
        except (TypeError, ValueError) as error:
            gave = (
                f"{event!r}: {error}"
                if shows_values
                else f"{type(event).__name__}, which is no event of today"
            )
            raise UpcastError(f"the upcaster of {name} gave {gave}") from error

    return decode
