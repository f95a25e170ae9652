"""Upcasters: user functions that convert the data of an old event into a current event."""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cqrs_cli.core.aggregate.decider import Decider, Event
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS, InvalidAggregate, class_name, is_interrupt

#: Returns a current event, from the data of an old event as a dict.
Upcaster = Callable[[dict[str, Any]], Event]


class UpcastError(ValueError):
    """An upcaster raised, or returned a value that is not a current event."""


def upcasters_of(decider: Decider[Any, Any, Any], events: Mapping[str, type[Event]]) -> dict[str, Upcaster]:
    """Return the decider's upcasters by the name of their event; raises `InvalidAggregate` for an invalid upcaster.

    `events` are the current events by name. If the event of an upcaster is still current, the upcaster gets data in the
    old form and in the new form.
    """
    if not isinstance(decider.upcasters, Mapping):
        raise InvalidAggregate(
            f"upcasters must be a dict from an event's name to a function, found {decider.upcasters!r}",
            decider.evolve,
        )
    for name, upcaster in decider.upcasters.items():
        if not (isinstance(name, str) and name.isidentifier()):
            raise InvalidAggregate(
                f"upcasters: {name!r} is not the name of an event; write the name of its class, such as 'Deposited'",
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
    """Raise `InvalidAggregate` if the return annotation has an event that `evolve` does not accept."""
    try:
        return_annotation = typing.get_type_hints(upcaster).get("return")
    except (NameError, AttributeError, TypeError):
        return  # unreadable annotations, such as names for type checkers only: `decode` checks the actual result
    for member in typing.get_args(return_annotation) or (return_annotation,):
        is_event = isinstance(member, type) and issubclass(member, Event) and member is not Event
        if is_event and member not in events.values():
            raise InvalidAggregate(
                f"the upcaster of {name} returns {member.__name__}, which evolve does not accept", upcaster
            )


def upcasting_decoder(
    name: str,
    upcaster: Upcaster,
    describe_error: Callable[[BaseException], str],
    read_back: Callable[[Event], Event],
    shows_values: bool,
) -> Callable[[bytes], Event]:
    """Return a decoder for the events with this name, in the old and in the current form.

    `read_back` encodes and decodes the result as a current event, and raises `TypeError` for any other value.
    `describe_error` formats the upcaster's exceptions. All errors except `PROCESS_ERRORS` become `UpcastError`. Without
    `shows_values` no message contains data, because it is unknown which old data are personal.
    """

    def decode(data: bytes) -> Event:
        old_data = msgspec.json.decode(data)
        if not isinstance(old_data, dict):
            excerpt = f": {bytes(data)[:60]!r}" if shows_values else ""
            raise UpcastError(f"the data of {name} are not a JSON object{excerpt}")
        try:
            event = upcaster(old_data)
        except PROCESS_ERRORS:
            raise
        except BaseException as error:  # the aggregate's code may raise any exception
            if is_interrupt(error):
                raise
            raise UpcastError(f"the upcaster of {name} raised {describe_error(error)}") from error
        try:
            return read_back(event)
        except (TypeError, ValueError) as error:
            result = (
                f"{event!r}: {error}"
                if shows_values
                else f"{class_name(type(event))}, which is not a current event"
            )
            raise UpcastError(f"the upcaster of {name} returned {result}") from error

    return decode
