"""An aggregate made ready for the wire: its decider with the types read from its annotations, and their codecs."""

import hashlib
import math
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from cqrs_cli.core.decider import Command, Decider, Event, State

#: One encoder for everything written: sets and dicts in one order, so that equal values are equal bytes.
ENCODER = msgspec.json.Encoder(order="deterministic")
encode: Callable[[Any], bytes] = ENCODER.encode


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Everything `core` needs of one aggregate. Wire types are `<name>.<Class>`."""

    name: str
    decider: Decider[Any, Any, Any]
    commands: dict[str, type[Command]]
    events: dict[str, type[Event]]
    state: type[State]
    decode_command: dict[str, Callable[[bytes], Command]]
    decode_event: dict[str, Callable[[bytes], Event]]
    decode_state: Callable[[bytes], State]
    event_types: dict[type, str]
    may_hold_floats: bool

    @classmethod
    def of(cls, name: str, decider: Decider[Any, Any, Any]) -> "Aggregate":
        """Read the types from the annotations of `decide` and `evolve`; raises `TypeError` saying what is missing."""
        commands = {f"{name}.{c.__name__}": c for c in _members(decider.decide, 0, Command)}
        events = {f"{name}.{e.__name__}": e for e in _members(decider.evolve, 1, Event)}
        state = type(decider.initial)
        if not issubclass(state, State):
            raise TypeError(f"{name}: initial must be a cqrs.State, not {state.__name__}")
        return cls(
            name=name,
            decider=decider,
            commands=commands,
            events=events,
            state=state,
            decode_command={t: msgspec.json.Decoder(c).decode for t, c in commands.items()},
            decode_event={t: msgspec.json.Decoder(e).decode for t, e in events.items()},
            decode_state=msgspec.json.Decoder(state).decode,
            event_types={e: t for t, e in events.items()},
            may_hold_floats=_may_hold_floats([*events.values(), state]),
        )

    @property
    def schema(self) -> str:
        """A digest of the fields of events and state: part of a shard's identity."""
        shape = msgspec.json.schema_components([*self.events.values(), self.state])
        return hashlib.sha256(encode(shape)).hexdigest()[:16]

    @property
    def code(self) -> str:
        """A digest of the functions' source bytecode: when it changes under one revision, `run` warns."""
        decider = self.decider
        parts = (f.__code__.co_code + repr(f.__code__.co_consts).encode() for f in (decider.decide, decider.evolve))
        return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]

    def encode_state(self, state: State) -> bytes:
        """The canonical bytes of a state: equal states are equal bytes, in any process."""
        return encode(state)

    def check_finite(self, value: Event | State) -> None:
        """Refuse NaN and infinities, which JSON cannot say (msgspec would write null); raises `ValueError`."""
        if self.may_hold_floats and not all(map(math.isfinite, _floats(msgspec.to_builtins(value)))):
            raise ValueError(f"{type(value).__name__} holds a number that is not finite")


def _members(function: Callable[..., Any], position: int, base: type) -> list[type[Any]]:
    """The classes that a parameter's annotation admits, in its order."""
    hints = typing.get_type_hints(function)
    code = function.__code__
    parameter = code.co_varnames[position] if code.co_argcount > position else "?"
    annotation = hints.get(parameter)
    members = typing.get_args(annotation) if _is_union(annotation) else (annotation,)
    for member in members:
        if not (isinstance(member, type) and issubclass(member, base)):
            raise TypeError(
                f"{function.__module__}.{function.__name__}: annotate {parameter!r} with the "
                f"{base.__name__.lower()}s it takes, e.g. `Open | Close`; found {member!r}"
            )
    return list(members)


def _is_union(annotation: object) -> bool:
    return isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union


def _may_hold_floats(classes: Iterable[type]) -> bool:
    """Whether a value of these types could carry a float anywhere; true when in doubt."""
    schema = encode(msgspec.json.schema_components(classes))
    # "number" is a float in JSON Schema; {} is what an untyped value becomes
    return b'"number"' in schema or b"{}" in schema


def _floats(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _floats(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _floats(item)
