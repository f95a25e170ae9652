"""Composes the commands of a process manager."""

import ast
import inspect
from collections.abc import Callable, Collection, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType

from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command, Event
from cqrs_cli.core.aggregate.values import require_exact
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.timestamps import milliseconds_of
from cqrs_cli.core.process import Process, Send
from cqrs_cli.core.react import InvalidReaction
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.core.reserved import reserved_command
from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.following.processes.composer import ComposedRecord, Composer
from cqrs_cli.formatting import did_you_mean
from cqrs_cli.kafka.topics.topics import Topics

_MILLISECOND = timedelta(milliseconds=1)


class CommandComposer(Composer):
    """Composes the commands of a process manager; raises `InvalidReaction` for a command that no owner would accept."""

    @staticmethod
    def output_topics(
        process: Process, module: ModuleType, aggregates: Collection[str], root: Path
    ) -> set[str]:
        """Return the commands topics of the aggregates that the code names in `Send("AGGREGATE", …)`."""
        output_topics = set()
        for name, line in _send_literals(module):
            if name not in aggregates:
                raise ConfigurationError(
                    f"{registry.relative_path(module.__file__, root)}:{line}: there is no aggregate {name!r}",
                    f"{did_you_mean(name, aggregates)} known: {', '.join(aggregates) or 'none'}".lstrip(),
                )
            output_topics.add(Topics(name).commands)
        return output_topics

    def _compose(self, recorded: Recorded[Event], value: Send, id: str, time: int) -> ComposedRecord:
        """Compose one command. Error texts contain no personal value of the event or the command."""
        try:
            return self._compose_command(recorded, value, id, time)
        except InvalidReaction as error:
            redacted = error.redact(recorded.event, value.command)
            if redacted is error:
                raise
            raise redacted from None

    def _compose_command(self, recorded: Recorded[Event], send: Send, id: str, time: int) -> ComposedRecord:
        wire_type, decode = _wire_type(self._aggregate(send.aggregate), type(send.command))
        data = encode_json(send.command)
        try:
            require_exact(send.command)
            decode(data)
        except ValueError as error:
            raise InvalidReaction(f"{wire_type}: {error}") from error
        return self._record(
            recorded,
            Topics(send.aggregate).commands,
            send.aggregate_id,
            wire_type,
            data,
            id=id,
            expected=None if send.expect is None else str(send.expect),
            expiry=None if send.expires is None else _to_milliseconds(time, send.expires),
            not_before=None if send.not_before is None else _to_milliseconds(time, send.not_before),
        )

    def _aggregate(self, name: str) -> Aggregate:
        try:
            aggregate = self._load(name)
        except CqrsError as error:
            raise InvalidReaction(f"{error.message}; {error.hint}") from error
        if Topics(name).commands not in self._outputs:
            raise InvalidReaction(f"the commands topic of {name!r} did not exist when the run started")
        return aggregate


def _wire_type(aggregate: Aggregate, command_class: type) -> tuple[str, Callable[[bytes], Command]]:
    """Return the wire type of a command that a process manager may send to the aggregate, and its decoder."""
    reserved = reserved_command(command_class)
    if reserved is not None and reserved.is_for_services:
        if not reserved.is_accepted_by(aggregate):
            raise InvalidReaction(f"{aggregate.name!r} has no personal fields, so it cannot be erased")
        return reserved.wire_type, reserved.decode
    wire_type = f"{aggregate.name}.{command_class.__name__}"
    if aggregate.commands.get(wire_type) is not command_class:
        raise InvalidReaction(
            f"{command_class.__module__}.{command_class.__qualname__} is not a command of {aggregate.name!r}"
        )
    return wire_type, aggregate.decode_command[wire_type]


def _to_milliseconds(time: int, moment: datetime | timedelta) -> int:
    """Return a moment in ms; a timedelta counts from `time`."""
    return milliseconds_of(moment) if isinstance(moment, datetime) else time + moment // _MILLISECOND


def _send_literals(module: ModuleType) -> Iterator[tuple[str, int]]:
    """Yield the first argument of each `Send(…)` in a module if it is a literal, with its line."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.Call):
            continue
        if getattr(node.func, "attr", getattr(node.func, "id", None)) != "Send":
            continue
        arguments = [
            *node.args[:1],
            *(keyword.value for keyword in node.keywords if keyword.arg == "aggregate"),
        ]
        for argument in arguments[:1]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value, argument.lineno
