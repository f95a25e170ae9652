"""Composes the command records for an event, with deterministic ids."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from cqrs_cli.client.envelope import IN_PYTHON, Attributes, valid_propagated_attributes, write_command
from cqrs_cli.codec.record_codec import AS_STORED, RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command, Event
from cqrs_cli.core.aggregate.values import require_exact
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.payload_reference import PayloadReference
from cqrs_cli.core.messages.reaction_id import ReactionId, process_source
from cqrs_cli.core.messages.timestamps import milliseconds_of
from cqrs_cli.core.process import Send
from cqrs_cli.core.react import InvalidReaction
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.core.reserved import reserved_command
from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.plan import CommandsTopic
from cqrs_cli.kafka.topics.partitioner import Partitioner, target_partition

#: Maximum bytes of commands for one event, because one transaction contains all of them.
MAX_COMMAND_BYTES = 8 * 1024 * 1024

_MILLISECOND = timedelta(milliseconds=1)


class ComposedCommand(NamedTuple):
    """A command record, and its payloads, which must be stored before the record is written."""

    topic: str
    value: bytes
    key: bytes
    partition: int
    payloads: Mapping[PayloadReference, bytes] = {}

    @property
    def size(self) -> int:
        """Bytes of the command, including stored payloads."""
        return len(self.value) + sum(map(len, self.payloads.values()))


def upload_payloads(codec: RecordCodec, commands: Iterable[ComposedCommand]) -> None:
    """Upload the payloads of commands; raises `PayloadUnavailableError`, after which no command may be sent."""
    by_topic: dict[str, dict[PayloadReference, bytes]] = defaultdict(dict)
    for command in commands:
        if command.payloads:
            by_topic[command.topic].update(command.payloads)
    for topic, payloads in by_topic.items():
        codec.upload(topic, payloads)


class Composer:
    """Composes the command records of one process manager."""

    def __init__(
        self,
        process: str,
        commands: Mapping[str, CommandsTopic],
        partitioner: Partitioner,
        load: Callable[[str], Aggregate],
        codec: RecordCodec = AS_STORED,
    ) -> None:
        """`codec`: replaces large data by references, if it has a payload store."""
        self._process, self._commands, self._partitioner, self._load = process, commands, partitioner, load
        self._codec = codec
        self._source = process_source(process)
        self._aggregates: dict[str, tuple[Aggregate, dict[type, str]]] = {}

    def compose(self, recorded: Recorded[Event], sends: tuple[Send, ...]) -> list[ComposedCommand]:
        """Return the records; raises `InvalidReaction` for a command that no owner would accept."""
        if not sends:
            return []
        time = milliseconds_of(recorded.time)
        first_id = ReactionId(self._process, recorded.topic, recorded.id, time, 0)
        commands = [
            self._compose_redacting_errors(recorded, send, str(first_id._replace(number=number)), time)
            for number, send in enumerate(sends)
        ]
        if sum(len(command.value) for command in commands) > MAX_COMMAND_BYTES:
            raise InvalidReaction(
                f"react returned more than {MAX_COMMAND_BYTES >> 20} MiB of commands for one event"
            )
        return [self._with_payload_reference(command) for command in commands]

    def _with_payload_reference(self, command: ComposedCommand) -> ComposedCommand:
        value, payloads = self._codec.replace_large_data(command.topic, command.value)
        return command._replace(value=value, payloads=payloads) if payloads else command

    def _compose_redacting_errors(
        self, recorded: Recorded[Event], send: Send, id: str, time: int
    ) -> ComposedCommand:
        """Compose one command. Error texts contain no personal value of the event or the command."""
        try:
            return self._compose_command(recorded, send, id, time)
        except InvalidReaction as error:
            redacted = error.redact(recorded.event, send.command)
            if redacted is error:
                raise
            raise redacted from None

    def _compose_command(self, recorded: Recorded[Event], send: Send, id: str, time: int) -> ComposedCommand:
        aggregate, wire_types = self._aggregate(send.aggregate)
        wire_type, decode = _wire_type(aggregate, wire_types, type(send.command))
        data = encode_json(send.command)
        try:
            require_exact(send.command)
            decode(data)
        except ValueError as error:
            raise InvalidReaction(f"{wire_type}: {error}") from error
        attributes = Attributes(
            id=id,
            expected=None if send.expect is None else str(send.expect),
            correlation=recorded.correlation_id or None,
            causation=recorded.id,
            expiry=None if send.expires is None else _to_milliseconds(time, send.expires),
            not_before=None if send.not_before is None else _to_milliseconds(time, send.not_before),
            **valid_propagated_attributes(recorded),
        )
        subject, source = send.aggregate_id, self._source
        try:
            ready_command = write_command(
                send.aggregate, subject, wire_type, data, source, attributes, names=IN_PYTHON
            )
        except CqrsError as error:
            raise InvalidReaction(f"{wire_type}: {error.message}") from error
        commands_topic, key = self._commands[send.aggregate], subject.encode()
        return ComposedCommand(
            commands_topic.topic,
            ready_command.value,
            key,
            target_partition(self._partitioner, key, commands_topic.partitions),
        )

    def _aggregate(self, name: str) -> tuple[Aggregate, dict[type, str]]:
        """Return the aggregate, and the wire types of its commands by class."""
        cached = self._aggregates.get(name)
        if cached is None:
            try:
                aggregate = self._load(name)
            except CqrsError as error:
                raise InvalidReaction(f"{error.message}; {error.hint}") from error
            if name not in self._commands:
                raise InvalidReaction(f"the commands topic of {name!r} did not exist when the run started")
            wire_types: dict[type, str] = {
                class_: wire_type for wire_type, class_ in aggregate.commands.items()
            }
            cached = self._aggregates[name] = (aggregate, wire_types)
        return cached


def _wire_type(
    aggregate: Aggregate, wire_types: Mapping[type, str], command_class: type
) -> tuple[str, Callable[[bytes], Command]]:
    """Return the wire type of a command that a process manager may send to the aggregate, and its decoder."""
    reserved = reserved_command(command_class)
    if reserved is not None and reserved.is_for_services:
        if not reserved.is_accepted_by(aggregate):
            raise InvalidReaction(f"{aggregate.name!r} has no personal fields, so it cannot be erased")
        return reserved.wire, reserved.decode
    wire_type = wire_types.get(command_class)
    if wire_type is None:
        raise InvalidReaction(
            f"{command_class.__module__}.{command_class.__qualname__} is not a command of {aggregate.name!r}"
        )
    return wire_type, aggregate.decode_command[wire_type]


def _to_milliseconds(time: int, moment: datetime | timedelta) -> int:
    """Return a moment in ms; a timedelta counts from `time`."""
    return milliseconds_of(moment) if isinstance(moment, datetime) else time + moment // _MILLISECOND
