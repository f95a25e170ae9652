"""Hypothesis strategies for random commands, drawn from the annotations of an aggregate's messages."""

from collections.abc import Iterable
from datetime import UTC, timedelta, timezone
from decimal import Decimal
from functools import cache, partial
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect as msgspec_types

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.type_tree import TypeNode, tree_of
from cqrs_cli.testing.round_trip import TimedCommand, context_of

#: The offsets of random times from UTC.
_ZONES = [UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-5, minutes=-30))]

#: The values of each simple type: mostly small values, so that commands often share a value; sometimes any value.
_SIMPLE_VALUES: dict[type, st.SearchStrategy[Any]] = {
    msgspec_types.IntType: st.integers(-2, 10) | st.integers(-(2**63), 2**63 - 1),
    msgspec_types.FloatType: st.integers(-2, 10).map(float)
    | st.floats(allow_nan=False, allow_infinity=False),
    msgspec_types.DecimalType: st.integers(-2, 10).map(Decimal) | st.decimals(-(10**18), 10**18, places=2),
    msgspec_types.DateTimeType: st.datetimes(timezones=st.sampled_from(_ZONES)),
    msgspec_types.StrType: st.sampled_from(["a", "b", "c"]) | st.text(max_size=20),
    msgspec_types.AnyType: st.none() | st.booleans() | st.integers() | st.text(max_size=20),
}
_NUMBER_STRATEGIES: dict[type, Any] = {
    msgspec_types.IntType: st.integers,
    msgspec_types.FloatType: partial(st.floats, allow_nan=False, allow_infinity=False),
}
_COLLECTIONS: dict[type, Any] = {
    msgspec_types.ListType: list,
    msgspec_types.VarTupleType: tuple,
    msgspec_types.SetType: set,
    msgspec_types.FrozenSetType: frozenset,
}
_MAX_COMMANDS = 15
_MAX_ITEMS = 5
#: Pauses between commands, from none to years, because rules about time may concern hours as well as months.
_PAUSES = [timedelta(seconds=n) for n in (0, 0.001, 1, 60, 3600, 86_400, 30 * 86_400, 3 * 365 * 86_400)]


def histories(aggregate: Aggregate) -> st.SearchStrategy[list[TimedCommand]]:
    """Return a strategy for histories of commands as they arrive over the wire, each with its time."""
    pauses = st.sampled_from(_PAUSES) if aggregate.decides_with_context else st.just(_PAUSES[0])
    steps = st.lists(st.tuples(commands(aggregate), pauses), min_size=1, max_size=_MAX_COMMANDS)
    return steps.map(_timed_commands)


def _timed_commands(steps: Iterable[tuple[Command, timedelta]]) -> list[TimedCommand]:
    """Return a history of the commands. `steps`: each command with the pause before it."""
    history = []
    time = context_of(0).time
    for number, (command, pause) in enumerate(steps, start=1):
        time += pause
        history.append(TimedCommand(command, context_of(0, time, number)))
    return history


def commands(aggregate: Aggregate) -> st.SearchStrategy[Command]:
    """Return a strategy for the commands that the aggregate accepts."""
    return messages_of(aggregate.commands.values())


def messages_of(classes: Iterable[type]) -> st.SearchStrategy[Any]:
    """Return a strategy for messages of these classes."""
    return st.one_of([_values(tree_of(cls)) for cls in classes])


def _values(node: TypeNode) -> st.SearchStrategy[Any]:
    match node.form:
        case "object":
            return _objects(node.msgspec_type.cls)
        case "union":
            return st.one_of([_values(member) for member in node.parts])
        case "list" | "set":
            return _lists(node)
        case "tuple":
            return st.tuples(*map(_values, node.parts))
        case "dict":
            return st.dictionaries(*map(_values, node.parts), max_size=_MAX_ITEMS)
    if type(node.msgspec_type) in _NUMBER_STRATEGIES:
        return _numbers(node.msgspec_type)
    if isinstance(node.msgspec_type, msgspec_types.StrType):
        return _texts(node.msgspec_type)
    return (
        _SIMPLE_VALUES[type(node.msgspec_type)]
        if type(node.msgspec_type) in _SIMPLE_VALUES
        else st.from_type(node.unwrapped)
    )


def _texts(text_type: msgspec_types.StrType) -> st.SearchStrategy[str]:
    """Return a strategy for texts within the limits that msgspec enforces."""
    min_length, max_length = text_type.min_length or 0, text_type.max_length
    if (text_type.min_length, max_length, text_type.pattern) == (None, None, None):
        return _SIMPLE_VALUES[msgspec_types.StrType]
    texts = (
        st.from_regex(text_type.pattern)
        if text_type.pattern
        else st.text(min_size=min_length, max_size=max_length or min_length + 20)
    )
    return texts.filter(
        lambda text: len(text) >= min_length and (max_length is None or len(text) <= max_length)
    )


def _numbers(number_type: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for numbers within the limits that msgspec enforces, often a small number within the limits."""
    low = number_type.gt if number_type.ge is None else number_type.ge
    high = number_type.lt if number_type.le is None else number_type.le
    small_numbers: st.SearchStrategy[Any] = _SIMPLE_VALUES[type(number_type)]
    step = number_type.multiple_of
    bounds = {name: bound for name, bound in (("min_value", low), ("max_value", high)) if bound is not None}
    if not bounds and step is None:
        return small_numbers
    any_numbers = _NUMBER_STRATEGIES[type(number_type)](**bounds) if bounds else small_numbers
    if step is not None:
        any_numbers = any_numbers.map(lambda number: number - number % step)
    numbers = (small_numbers | any_numbers).filter(
        lambda number: (low is None or number >= low) and (high is None or number <= high)
    )
    return numbers.filter(
        lambda number: number not in (number_type.gt, number_type.lt) and (step is None or number % step == 0)
    )


def _lists(node: TypeNode) -> st.SearchStrategy[Any]:
    min_length, max_length = node.msgspec_type.min_length or 0, node.msgspec_type.max_length
    unique, make = node.form == "set", _COLLECTIONS[type(node.msgspec_type)]
    item = _values(node.parts[0])
    return st.lists(
        item, min_size=min_length, max_size=max_length or min_length + _MAX_ITEMS, unique=unique
    ).map(make)


@cache
def _objects(cls: type) -> st.SearchStrategy[Any]:
    """Return a strategy that draws every field, also fields with a default. Cached, as a type may contain itself."""
    return st.builds(cls, **{field.name: _deferred_values(node) for field, node in tree_of(cls).fields})


def _deferred_values(node: TypeNode) -> st.SearchStrategy[Any]:
    return st.deferred(lambda: _values(node))
