"""Random commands, drawn from the annotations of an aggregate's messages. Needs hypothesis."""

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.testing.round_trip import TimedCommand, context_of

#: Mostly few and small values, so that one command meets what another has done; now and then anything.
_LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-2, 10) | st.integers(-(2**63), 2**63 - 1),
    float: st.integers(-2, 10).map(float) | st.floats(allow_nan=False, allow_infinity=False),
    Decimal: st.integers(-2, 10).map(Decimal) | st.decimals(-(10**18), 10**18, places=2),
    str: st.sampled_from(["a", "b", "c"]) | st.text(max_size=20),
    Any: st.none() | st.booleans() | st.integers() | st.text(max_size=20),
}
_MAX_COMMANDS = 15
_MAX_ITEMS = 5
#: From one command to the next: from none to years, as rules about time are about hours as well as months.
_PAUSES = [timedelta(seconds=n) for n in (0, 0.001, 1, 60, 3600, 86_400, 30 * 86_400, 3 * 365 * 86_400)]


def histories(aggregate: Aggregate) -> st.SearchStrategy[list[TimedCommand]]:
    """Commands as they come in over the wire, each at its time."""
    pauses = st.sampled_from(_PAUSES) if aggregate.decide_with_context else st.just(_PAUSES[0])
    drawn = st.lists(st.tuples(commands(aggregate), pauses), min_size=1, max_size=_MAX_COMMANDS)
    return drawn.map(_one_after_another)


def _one_after_another(drawn: Iterable[tuple[Command, timedelta]]) -> list[TimedCommand]:
    steps = []
    time = context_of(0).time
    for number, (command, pause) in enumerate(drawn, start=1):
        time += pause
        steps.append(TimedCommand(command, context_of(0, time, number)))
    return steps


def commands(aggregate: Aggregate) -> st.SearchStrategy[Command]:
    """Any command that the aggregate takes."""
    return st.one_of([_values(cls) for cls in aggregate.commands.values()])


def _values(annotation: Any) -> st.SearchStrategy[Any]:
    if annotation in _LEAVES:
        return _LEAVES[annotation]
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _structs(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _values(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_values(member) for member in arguments])
    if origin in (list, Sequence, set, frozenset) or (origin is tuple and arguments[-1:] == (Ellipsis,)):
        make = list if origin is Sequence else origin
        return st.lists(_values(arguments[0]), max_size=_MAX_ITEMS).map(make)
    if origin is tuple:
        return st.tuples(*map(_values, arguments))
    if origin in (dict, Mapping):
        return st.dictionaries(_values(arguments[0]), _values(arguments[1]), max_size=_MAX_ITEMS)
    return st.from_type(annotation)


@cache
def _structs(cls: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Every field is drawn, those with a default too. Cached, as a type may contain itself."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return st.builds(cls, **{field: _later(hints[field]) for field in cls.__struct_fields__})


def _later(annotation: Any) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _values(annotation))
