"""Reads the message types of an aggregate from the annotations of its `decide` and `evolve`."""

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from cqrs_cli.core.aggregate.decider import Command, Context, Decider, Event, State
from cqrs_cli.core.aggregate.errors import InvalidAggregate

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class MessageTypes(typing.NamedTuple):
    """The message classes of an aggregate, with commands and events in the order of the annotations."""

    commands: list[type[Command]]
    events: list[type[Event]]
    state: type[State]
    decides_with_context: bool


def types_of(decider: Decider[Any, Any, Any]) -> MessageTypes:
    """Return the classes in the annotations of `decide` and `evolve`.

    Raises `InvalidAggregate` for a missing or wrong annotation; its message contains the correct form.
    """
    command, decide_state, *context_parameters = _parameter_names(
        decider.decide, "decide(command, state)", max_parameters=3
    )
    evolve_state, event = _parameter_names(decider.evolve, "evolve(state, event)")
    commands = _message_classes(decider.decide, command, Command)
    events = _message_classes(decider.evolve, event, Event)
    state = _state_class(decider)
    _require_evolve_accepts(decider.decide, events)
    for function, parameter in ((decider.decide, decide_state), (decider.evolve, evolve_state)):
        _require_state(function, parameter, state)
    if context_parameters:
        _require_context(decider.decide, context_parameters[0])
    return MessageTypes(commands, events, state, bool(context_parameters))


def _parameter_names(function: Callable[..., Any], form: str, max_parameters: int = 2) -> list[str]:
    """Return the names of a function's parameters; the error for a wrong number contains the correct `form`."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    if not 2 <= len(names) <= max_parameters:
        raise InvalidAggregate(f"{_name(function)} must be a function {form}", function)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidAggregate(
            f"{_name(function)} is `async def`: write `def`, since it is pure and waits for nothing", function
        )
    return names


def _require_evolve_accepts(decide: Callable[..., Any], events: list[type[Event]]) -> None:
    """Raise `InvalidAggregate` if the return annotation of `decide` has an event that `evolve` does not accept."""
    for event_class in _classes_in(_annotation(decide, "return")):
        if issubclass(event_class, Event) and event_class is not Event and event_class not in events:
            raise InvalidAggregate(
                f"{_name(decide)} returns {event_class.__name__}, which evolve does not accept: add it to the "
                "annotation of evolve's event, and handle it there",
                decide,
            )


def _classes_in(annotation: Any) -> Iterator[type]:
    """Yield every class within an annotation: `Opened`, `Closed` and `Iterator` for `Iterator[Opened | Closed]`."""
    annotation = getattr(annotation, "__value__", annotation)
    if isinstance(annotation, type):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _classes_in(argument)


def _require_context(decide: Callable[..., Any], parameter: str) -> None:
    annotation = _annotation(decide, parameter)
    if annotation is not Context:
        raise InvalidAggregate(
            f"{_name(decide)}: annotate its third parameter, {parameter!r}, with cqrs.Context,"
            f" found {annotation_text(annotation)}",
            decide,
        )
    if inspect.signature(decide).parameters[parameter].kind not in _POSITIONAL:
        raise InvalidAggregate(
            f"{_name(decide)} must be a function decide(command, state, {parameter}: cqrs.Context)", decide
        )


def _annotation(function: Callable[..., Any], parameter: str) -> Any:
    try:
        return typing.get_type_hints(function).get(parameter)
    except (NameError, AttributeError, TypeError) as error:
        raise InvalidAggregate(
            f"the annotations of {_name(function)} cannot be read: {error}", function
        ) from error


def _message_classes(function: Callable[..., Any], parameter: str, base: type) -> list[type[Any]]:
    """Return the subclasses of `base`, `Command` or `Event`, in the annotation of a parameter."""
    noun = base.__name__.lower()
    messages: dict[str, type[Any]] = {}
    for member in union_members(_annotation(function, parameter)):
        if not (isinstance(member, type) and issubclass(member, base) and member is not base):
            is_swapped = isinstance(member, type) and issubclass(member, State | Command | Event)
            order = "; the order is decide(command, state) and evolve(state, event)" if is_swapped else ""
            raise InvalidAggregate(
                f"{_name(function)}: annotate {parameter!r} with the {noun}s it accepts, e.g. `Opened | Closed`"
                f" (subclasses of cqrs.{base.__name__}), found {annotation_text(member)}{order}",
                function,
            )
        if messages.setdefault(member.__name__, member) is not member:
            raise InvalidAggregate(
                f"{_name(function)} accepts two {noun}s named {member.__name__}, and the name is their type on the "
                "wire: rename one",
                function,
            )
        _require_plain(member)
    return list(messages.values())


def union_members(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, at any depth, in order; for any other annotation the annotation itself."""
    # `type Commands = Open | Close`, from Python 3.12.
    annotation = getattr(annotation, "__value__", annotation)
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return tuple(part for member in typing.get_args(annotation) for part in union_members(member))
    return (annotation,)


def _state_class(decider: Decider[Any, Any, Any]) -> type[State]:
    """Return the class of `initial`; raises `InvalidAggregate` for a field without a default."""
    state = type(decider.initial)
    if not issubclass(state, State) or state is State:
        raise InvalidAggregate(
            f"initial must be an instance of your own cqrs.State, found {decider.initial!r}", decider.decide
        )
    _require_plain(state)
    required = len(state.__struct_fields__) - len(state.__struct_defaults__)
    if required:
        raise InvalidAggregate(
            f"{state.__name__}.{state.__struct_fields__[0]} needs a default, as every field of a state does",
            state,
        )
    return state


def _require_state(function: Callable[..., Any], parameter: str, state: type[State]) -> None:
    annotation = _annotation(function, parameter)
    if annotation is not state:
        raise InvalidAggregate(
            f"{_name(function)}: annotate {parameter!r} with {state.__name__}, the class of `initial`,"
            f" found {annotation_text(annotation)}",
            function,
        )


def _require_plain(cls: type[Any]) -> None:
    """Require a class that is frozen, not generic, and a JSON object of its fields, so its wire form is unambiguous."""
    config = cls.__struct_config__
    for name in _unannotated_names(cls):
        value = vars(cls)[name]
        raise InvalidAggregate(
            f"{cls.__name__}.{name} has no annotation, so it is not a field: write"
            f" `{name}: {type(value).__name__} = {value!r}`, or ClassVar if it is a constant",
            cls,
        )
    if getattr(cls, "__parameters__", ()):
        raise InvalidAggregate(
            f"{cls.__name__} is generic: write the types of its fields instead of type variables", cls
        )
    if not config.frozen:
        raise InvalidAggregate(f"{cls.__name__} is not frozen: a decision must not change its arguments", cls)
    if config.array_like or config.tag is not None:
        raise InvalidAggregate(
            f"{cls.__name__} has a tag or is array_like: remove it, since a message is a plain JSON object of its "
            "fields",
            cls,
        )


def _unannotated_names(cls: type[Any]) -> list[str]:
    """Return the names in a class's body that look like fields but have no annotation, such as `cents = 0`."""
    field_names = {*cls.__annotations__, *cls.__struct_fields__}
    return [
        name
        for name, value in vars(cls).items()
        if not name.startswith("_")
        and name not in field_names
        and not callable(value)
        and not hasattr(value, "__get__")
    ]


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))


def annotation_text(annotation: object) -> str:
    """Return an annotation as text for an error."""
    if annotation is None:
        return "no annotation"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
