"""The client for Python programs. It sends commands, which are instances of the aggregates' own classes, and returns
their outcomes.
"""

import asyncio
import threading
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType

from cqrs_cli.client.background_sender import BackgroundSender, UnsentCommands
from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.client.envelope import IN_PYTHON, Attributes, ReadyCommand, create_command
from cqrs_cli.client.pending_outcome import PendingOutcome
from cqrs_cli.client.project_aggregates import ProjectAggregates, project_connection
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.values import require_exact
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.timestamps import milliseconds_of
from cqrs_cli.core.reserved import RESERVED_COMMANDS
from cqrs_cli.errors import UnavailableError, UsageError
from cqrs_cli.formatting import counted
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.settings.durations import milliseconds
from cqrs_cli.settings.settings import load_settings
from cqrs_cli.telemetry.otel.tracing import begin_sending, start_tracing, stop_tracing

#: The CloudEvents source of commands that a client sends.
CLIENT_SOURCE = "/cqrs/client"


class Client:
    """Sends commands to a project's aggregates. Use it as a context manager, `with` or `async with`, from any thread.

        with Client() as client:
            outcome = client.send("acc-42", Deposit(100), expect=7).wait()

    `project` is the folder of the project, by default the current folder. The project's settings apply as they do for
    `cqrs`; the other arguments override them. `timeout`: seconds to wait for the outcome of a command.
    """

    def __init__(
        self,
        project: str | Path | None = None,
        *,
        timeout: float = 30.0,
        bootstrap_server: str | None = None,
        command_config: str | Path | None = None,
        properties: Mapping[str, str] | None = None,
        topic_prefix: str | None = None,
    ) -> None:
        flags = {
            "bootstrap_server": bootstrap_server,
            "command_config": None if command_config is None else Path(command_config),
            "properties": [f"{name}={value}" for name, value in (properties or {}).items()] or None,
            "topic_prefix": topic_prefix,
        }
        self._settings = load_settings(flags, None if project is None else Path(project))
        self._aggregates = ProjectAggregates(self._settings)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._sender: BackgroundSender | None = None
        self._is_closed = False
        self._is_tracing = start_tracing()

    def send(
        self,
        aggregate_id: str,
        command: Command,
        *,
        expect: int | str | None = None,
        id: str | None = None,
        correlation_id: str | None = None,
        expires: timedelta | None = None,
        not_before: timedelta | datetime | None = None,
        traceparent: str | None = None,
        tracestate: str | None = None,
        timeout: float | None = None,
        aggregate: str | None = None,
    ) -> PendingOutcome:
        """Send a command in the background, and return its pending outcome: call `.wait()`, or `await` it.

        `expect` is a version, or `any`, `none`, `exists` or `>=N`. The `id` makes the command idempotent; by default it
        is a new UUIDv7. After a lost connection the command is resent with its id until its timeout.
        `not_before` is a time, or a delay from now: the outcome is `deferred` until the command is decided. To cancel
        or release a deferred command, send `cqrs.Cancel(id)` or `cqrs.Release(id)` to its aggregate, with
        `aggregate=`. To erase the personal fields of an aggregate, send `cqrs.Erase()`.
        Raises `UsageError` for an invalid command, `UnavailableError` if no broker is configured.
        """
        if isinstance(expect, bool):
            raise UsageError(f"expect: not an expected version: {expect}", "use any, none, exists, N or >=N")
        attributes = Attributes(
            id=id,
            expected=None if expect is None else str(expect),
            correlation=correlation_id,
            expiry=None if expires is None else _to_milliseconds(expires),
            not_before=None if not_before is None else _to_milliseconds(not_before),
            traceparent=traceparent,
            tracestate=tracestate,
        )
        attributes, sending = begin_sending(attributes)
        ready_command = self._compose(aggregate_id, command, aggregate, attributes)
        topics = Topics(ready_command.aggregate, self._settings.topic_prefix)
        pending = PendingOutcome(
            ready_command, topics, self._timeout if timeout is None else timeout, sending
        )
        with self._lock:
            if self._is_closed:
                raise UsageError("the client is closed", "send within its `with` block")
            if self._sender is None:
                self._sender = BackgroundSender(
                    project_connection(self._settings), self._settings.partitioner
                )
            self._sender.submit(pending)
        return pending

    def recorded(self, outcome: CommandOutcome) -> tuple[int, int]:
        """Return the partition of the events topic that has the command's events, and the partition's last offset now.
        The command has no event after this offset.

        `cqrs_cli.projections.wait(db, *client.recorded(outcome))` waits until a read model has these events.
        """
        topic, partition = Topics(outcome.aggregate, self._settings.topic_prefix).events, outcome.partition
        if outcome.original is not None and isinstance(outcome.original.partition, int):
            # For a duplicate, the partition in which the command was first decided, maybe before a repartitioning.
            partition = outcome.original.partition
        bounds = readers.bounds(project_connection(self._settings), topic, [partition])
        return partition, bounds[partition][1] - 1

    def close(self) -> None:
        """Wait until every command is in the log, then stop. Raises `UnavailableError` for unsent commands."""
        with self._lock:
            was_closed, self._is_closed, sender, self._sender = self._is_closed, True, self._sender, None
        unsent = sender.close() if sender is not None else UnsentCommands()
        if self._is_tracing and not was_closed:
            stop_tracing()
        if unsent.command_count:
            raise UnavailableError(
                f"the client was closed with {counted(unsent.command_count, 'command')} not in the log,"
                f" the first {unsent.first_id}",
                "sending them again with the same ids is safe",
            )

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        error_class: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except UnavailableError:
            if error is None:  # don't mask the exception raised inside the block
                raise

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self,
        error_class: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, error_class, error, traceback)

    def _compose(
        self, aggregate_id: str, command: Command, aggregate: str | None, attributes: Attributes
    ) -> ReadyCommand:
        """Check the values of a command's fields, and encode the command; raises `UsageError` for an invalid value."""
        if not isinstance(command, Command):
            raise UsageError(f"not a command: {command!r:.100}", "send one of the aggregate's own classes")
        decider_aggregate, wire_type = self._aggregates.of_command(command, aggregate)
        data = encode_json(command)
        try:
            require_exact(command)
            if wire_type in RESERVED_COMMANDS:
                RESERVED_COMMANDS[wire_type].decode(data)
            else:
                decider_aggregate.decode_command[wire_type](data)
        except ValueError as error:
            reason = decider_aggregate.personal.redact_mismatch(str(error), type(command), data)
            raise UsageError(f"{wire_type}: {reason}", "give each field a value of its type") from None
        return create_command(
            decider_aggregate.name, aggregate_id, wire_type, data, CLIENT_SOURCE, attributes, IN_PYTHON
        )


def _to_milliseconds(duration_or_time: timedelta | datetime) -> int:
    """Return a time, or the time after a delay from now, in ms since 1970; raises `UsageError` for a time without a UTC
    offset.
    """
    if isinstance(duration_or_time, timedelta):
        return time.time_ns() // 1_000_000 + milliseconds(duration_or_time)
    if duration_or_time.tzinfo is None:
        raise UsageError(
            f"not_before: {duration_or_time} has no UTC offset", "give an aware datetime, or a timedelta"
        )
    return milliseconds_of(duration_or_time)
