"""Random commands, drawn from the annotations of an aggregate's messages. Needs hypothesis."""

import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache, partial
from typing import Any

import msgspec
from hypothesis import strategies as st

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.fields import annotations_of, is_object, object_fields
from cqrs_cli.testing.round_trip import TimedCommand, context_of

#: Times come with their offset, and it is not always UTC's.
_ZONES = [UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-5, minutes=-30))]

#: Mostly few and small values, so that one command meets what another has done; now and then anything.
_LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-2, 10) | st.integers(-(2**63), 2**63 - 1),
    float: st.integers(-2, 10).map(float) | st.floats(allow_nan=False, allow_infinity=False),
    Decimal: st.integers(-2, 10).map(Decimal) | st.decimals(-(10**18), 10**18, places=2),
    datetime: st.datetimes(timezones=st.sampled_from(_ZONES)),
    str: st.sampled_from(["a", "b", "c"]) | st.text(max_size=20),
    Any: st.none() | st.booleans() | st.integers() | st.text(max_size=20),
}
_NUMBERS: dict[Any, Any] = {
    int: st.integers,
    float: partial(st.floats, allow_nan=False, allow_infinity=False),
    Decimal: partial(st.decimals, allow_nan=False, allow_infinity=False),
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
    if is_object(annotation):
        return _objects(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _constrained(arguments[0], [one for one in arguments[1:] if isinstance(one, msgspec.Meta)])
    if origin in (typing.Union, types.UnionType):
        return st.one_of([_values(member) for member in arguments])
    if origin in (list, Sequence, set, frozenset) or (origin is tuple and arguments[-1:] == (Ellipsis,)):
        return _lists(annotation, 0, _MAX_ITEMS)
    if origin is tuple:
        return st.tuples(*map(_values, arguments))
    if origin in (dict, Mapping):
        return st.dictionaries(_values(arguments[0]), _values(arguments[1]), max_size=_MAX_ITEMS)
    return st.from_type(annotation)


def _constrained(annotation: Any, metas: list[msgspec.Meta]) -> st.SearchStrategy[Any]:
    """Values within the limits that msgspec sees to; those that come now and then anyhow are filtered."""

    def limit(*names: str) -> Any:
        return next((getattr(m, n) for n in names for m in metas if getattr(m, n) is not None), None)

    least, most = limit("min_length") or 0, limit("max_length")
    if annotation is str:
        pattern = limit("pattern")
        texts = st.from_regex(pattern) if pattern else st.text(min_size=least, max_size=most or least + 20)
        return texts.filter(lambda text: len(text) >= least and (most is None or len(text) <= most))
    if annotation in (int, float, Decimal):
        low, high = limit("ge", "gt"), limit("le", "lt")
        above, below, step = limit("gt"), limit("lt"), limit("multiple_of")
        near = _LEAVES[annotation]
        bounds = {
            name: bound for name, bound in (("min_value", low), ("max_value", high)) if bound is not None
        }
        drawn = _NUMBERS[annotation](**bounds) if bounds else near
        if step is not None:
            drawn = drawn.map(lambda number: number - number % step)
        within = (near | drawn).filter(lambda n: (low is None or n >= low) and (high is None or n <= high))
        return within.filter(lambda n: n not in (above, below) and (step is None or n % step == 0))
    if typing.get_origin(annotation) in (list, Sequence, set, frozenset, tuple):
        return _lists(annotation, least, most or least + _MAX_ITEMS)
    return _values(annotation)


def _lists(annotation: Any, least: int, most: int) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    make = list if origin is Sequence else origin
    unique = origin in (set, frozenset)
    return st.lists(_values(arguments[0]), min_size=least, max_size=most, unique=unique).map(make)


@cache
def _objects(cls: type) -> st.SearchStrategy[Any]:
    """Every field is drawn, those with a default too. Cached, as a type may contain itself."""
    hints = annotations_of(cls)
    return st.builds(cls, **{field.name: _later(hints[field.name]) for field in object_fields(cls)})


def _later(annotation: Any) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _values(annotation))
