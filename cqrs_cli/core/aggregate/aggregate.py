"""`Aggregate`: a decider with its message types and their codecs."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec import Raw, Struct

from cqrs_cli.core.aggregate import schema
from cqrs_cli.core.aggregate.annotations import types_of
from cqrs_cli.core.aggregate.code_digest import reachable_code_digest
from cqrs_cli.core.aggregate.decider import Command, Decider, Event, State
from cqrs_cli.core.aggregate.erased import ERASED, Erased, with_erasure
from cqrs_cli.core.aggregate.errors import InvalidAggregate, describe_error, without_message
from cqrs_cli.core.aggregate.upcasting import Upcaster, upcasters_of, upcasting_decoder
from cqrs_cli.core.aggregate.values import command_decoder, require_exact, require_finite
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.nesting import check_nesting
from cqrs_cli.core.personal.encrypted_data import redacting_decoder
from cqrs_cli.core.personal.personal_fields import AnnotationError
from cqrs_cli.core.personal.schema import PersonalSchema

_M = TypeVar("_M", bound=Struct)


@dataclass(frozen=True, eq=False)
class Aggregate:
    """A user's decider with its message classes and codecs. Keys of type `str` are wire types: `<name>.<Class>`."""

    name: str
    decider: Decider[Any, Any, Any]
    commands: dict[str, type[Command]]
    events: dict[str, type[Event]]  # current events, without the reserved `Erased`
    state: type[State]
    upcasters: dict[str, Upcaster]  # by the type of the old event, which may have no class any more
    decode_command: dict[str, Callable[[bytes], Command]]
    decode_event: dict[str, Callable[[bytes], Event]]  # includes `Erased`, and old events with an upcaster
    decode_state: Callable[[bytes], State]
    event_types: dict[type, str]  # class → wire type
    may_be_inexact: bool  # an event or the state may contain NaN, an infinity, or a time without an offset
    may_nest: bool  # the JSON of a message or of the state may nest without limit
    decides_with_context: bool  # `decide` has a third parameter
    package: str  # the package or module of `decide`; errors name a line in it
    ce_source: str  # the CloudEvents source of its events and outcomes
    personal: PersonalSchema  # the personal fields of all messages and of the state
    has_personal_fields: bool  # in any message or in its state
    evolves_erased: bool  # `evolve` accepts the reserved event `cqrs.Erased`

    @classmethod
    def of(cls, name: str, decider: Decider[Any, Any, Any]) -> "Aggregate":
        """Create an aggregate; the annotations of `decide` and `evolve` give the message types.

        Raises `InvalidAggregate`, a `TypeError`, for a type that is missing, duplicate or without a form in JSON, and
        for an invalid personal-data annotation.
        """
        types = types_of(decider)
        for message in (*types.commands, *types.events, types.state):
            schema.require_json(message)
        for stored in (*types.events, types.state):
            schema.require_explicit_defaults(stored)
        try:
            personal = PersonalSchema((*types.commands, *types.events, types.state))
        except AnnotationError as error:
            raise InvalidAggregate(str(error), error.where) from None
        evolves_erased = Erased in types.events
        if evolves_erased and not personal:
            raise InvalidAggregate(
                "evolve accepts cqrs.Erased, but no field is personal: remove it, or annotate a field",
                decider.evolve,
            )
        commands = {f"{name}.{command.__name__}": command for command in types.commands}
        events = {f"{name}.{event.__name__}": event for event in types.events if event is not Erased}
        reserved: dict[str, type[Event]] = {ERASED: Erased} if personal else {}
        upcasters = upcasters_of(decider, {event.__name__: event for event in events.values()})
        aggregate = cls(
            name=name,
            decider=decider,
            commands=commands,
            events=events,
            state=types.state,
            upcasters={f"{name}.{event}": upcaster for event, upcaster in upcasters.items()},
            decode_command={wire_type: command_decoder(command) for wire_type, command in commands.items()},
            decode_event={
                wire_type: _decoder(event, personal) for wire_type, event in (events | reserved).items()
            },
            decode_state=_decoder(types.state, personal),
            event_types={event: wire_type for wire_type, event in events.items()},
            may_be_inexact=schema.may_be_inexact([*types.events, types.state]),
            may_nest=schema.may_nest([*types.commands, *types.events, types.state]),
            package=decider.decide.__module__.rpartition(".")[0] or decider.decide.__module__,
            decides_with_context=types.decides_with_context,
            ce_source=f"/cqrs/{name}",
            personal=personal,
            has_personal_fields=bool(personal),
            evolves_erased=evolves_erased,
        )
        aggregate._install_upcasters(dict(aggregate.decode_event))
        return aggregate

    def _install_upcasters(self, current_decoders: dict[str, Callable[[bytes], Event]]) -> None:
        """Set the decoder of each event that has an upcaster.

        The upcaster's result is encoded, and decoded with `current_decoders`, the decoders of current events. So the
        result equals an event that was written in its current form.
        """

        def read_back(event: Event) -> Event:
            wire_type = self.event_types.get(type(event))
            if wire_type is None:
                known_names = ", ".join(cls.__name__ for cls in self.event_types)
                raise TypeError(f"not a current event: evolve accepts {known_names}")
            return current_decoders[wire_type](self.encode_checked(event))

        for wire_type, upcaster in self.upcasters.items():
            name = wire_type.removeprefix(f"{self.name}.")
            decode = upcasting_decoder(
                name, upcaster, self.describe_error, read_back, not self.has_personal_fields
            )
            if self.has_personal_fields:
                decode = redacting_decoder(decode, self.events.get(wire_type))
            self.decode_event[wire_type] = decode

    def type_of(self, event: Event) -> str:
        """Return the wire type of an event: `<name>.<Class>`, or `cqrs.Erased`."""
        event_class = type(event)
        if event_class is Erased:
            return ERASED
        return self.event_types.get(event_class, f"{self.name}.{event_class.__name__}")

    def describe_error(self, error: BaseException, package: str | None = None) -> str:
        """Return line and message of an exception of the aggregate's code: `wallet.py:12: KeyError: 'EUR'`.

        If the aggregate has personal fields, the exception's class replaces the message, which may contain a value.
        If other code raised, such as a projection that handled an event, `package` is the package of that code.
        """
        return describe_error(error, package or self.package, not self.has_personal_fields)

    def redact_error(self, error: BaseException) -> BaseException:
        """Return the exception for a traceback; without its message if the aggregate has personal fields."""
        return without_message(error) if self.has_personal_fields else error

    def raise_redacted(self, error: BaseException) -> NoReturn:
        """Raise a process error (`PROCESS_ERRORS`); without message and cause if the aggregate has personal fields."""
        raise self.redact_error(error)

    @cached_property
    def schema_digest(self) -> str:
        """A digest of the fields of events and state, and of the events with an upcaster: part of a shard's identity.

        So a shard is rebuilt after an event or an upcaster was removed. The rebuild reads all events, and finds
        unreadable events before the owner decides. Docstrings do not change the digest.
        """
        return schema.schema_digest([*self.events.values(), self.state], self.upcasters)

    @cached_property
    def fold_digest(self) -> str:
        """A digest of the initial state and of the code that folds: `evolve`, the upcasters and the code that they use.

        `run`, `check` and `doctor` warn if the digest changes without a new revision. It omits the fields of messages,
        because `cqrs check` compares them one by one.
        """
        decider = self.decider
        functions = [decider.evolve, *decider.upcasters.values()]
        names = [getattr(function, "__name__", "") for function in functions]
        messages = schema.class_names([*self.events.values(), self.state])
        code = reachable_code_digest(decider.evolve.__module__, [*names, self.state.__name__], messages)
        initial = encode_json(schema.changed_fields(decider.initial))
        return hashlib.sha256(code.encode() + initial).hexdigest()[:16]

    def encode_state(self, state: State) -> bytes:
        """Return the canonical bytes of a state: equal states give equal bytes, in every process."""
        return encode_json(state)

    @cached_property
    def quick_encode(self) -> Callable[[Any], bytes]:
        """The encoder for the hot path: `encode_checked`, or `encode_json` if no value needs a check."""
        return self.encode_checked if self.may_be_inexact or self.may_nest else encode_json

    def encode_checked(self, value: Event | State) -> bytes:
        """Return the JSON of an event or a state; raises `ValueError` for a value that readers could not read back."""
        if self.may_be_inexact:
            self.check_values(value)
        data = encode_json(value)
        if self.may_nest:
            check_nesting(data)
        return data

    @cached_property
    def step(self) -> Callable[[State, str, Raw | bytes], State]:
        """The function that every fold calls: `step(state, event type, event data)` returns the next state.

        Events are decoded from their written form. The new state is encoded and decoded after each event, so that
        storing it in a shard makes no difference.

        Raises `KeyError` for an unknown event type, `TypeError` if `evolve` returns no state, `ValueError` for data or
        a state that cannot be read back, and the errors of `evolve`.
        """
        evolve = self.decider.evolve
        if self.has_personal_fields:
            evolve = with_erasure(evolve, self.evolves_erased, self.personal.redact)
        return self._make_step(evolve, self.decode_event)

    @cached_property
    def step_decided(self) -> Callable[[State, str, Raw | bytes], State]:
        """`step` for events that `decide` returned, and that are not encrypted yet.

        It does not search events for encrypted values: encryption searches the events of `classes_to_search`.
        """
        if not self.has_personal_fields:
            return self.step
        plain = {wire_type: msgspec.json.Decoder(cls).decode for wire_type, cls in self.events.items()}
        upcast = {wire_type: self.decode_event[wire_type] for wire_type in self.upcasters}
        return self._make_step(self.decider.evolve, plain | upcast)

    @cached_property
    def classes_to_search(self) -> frozenset[type]:
        """The commands and events whose JSON may have an unencrypted member with the shape of an encrypted value.

        Only these classes are searched for such members. Empty for an aggregate without personal fields.
        """
        if not self.has_personal_fields:
            return frozenset()
        upcast = {cls for wire_type, cls in self.events.items() if wire_type in self.upcasters}
        lenient = {cls for cls in self.commands.values() if not cls.__struct_config__.forbid_unknown_fields}
        messages = (*self.commands.values(), *self.events.values())
        return frozenset(filter(schema.may_hold_objects, messages)) | upcast | lenient

    def _make_step(
        self, evolve: Callable[[State, Event], State], decoders: Mapping[str, Callable[[bytes], Event]]
    ) -> Callable[[State, str, Raw | bytes], State]:
        cls, encode = self.state, self.quick_encode
        decode_state = msgspec.json.Decoder(cls).decode  # the state is not encrypted here

        def step(state: State, wire_type: str, data: Raw | bytes) -> State:
            next_state = evolve(state, decoders[wire_type](data))
            if type(next_state) is not cls:
                raise TypeError(f"evolve returned {type(next_state).__name__}, not {cls.__name__}")
            return decode_state(encode(next_state))

        return step

    def check_values(self, value: Event | State) -> None:
        """Raise `ValueError` for values that readers could not read back: NaN, infinities, and times without offset.

        An aggregate without such fields pays nothing. A state may contain a time without offset, from an old event.
        """
        if self.may_be_inexact:
            if isinstance(value, Event):
                require_exact(value)
            else:
                require_finite(value)


def _decoder(cls: type[_M], personal: PersonalSchema) -> Callable[[bytes], _M]:
    """Return a decoder of events or states, which redacts encrypted members."""
    decode = msgspec.json.Decoder(cls).decode
    return redacting_decoder(decode, cls) if personal.fields_of(cls) else decode
