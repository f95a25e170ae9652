"""Sends commands and waits for their outcomes, for `cqrs send`. This module prints nothing."""

import codecs
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from cqrs_cli.client.compose import complete_line, require_decodable
from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.outcomes import OutcomeWaiter, ReceivedOutcome
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.errors import CqrsError, UsageError
from cqrs_cli.kafka.topics.topics import Topics

#: The number of commands between two polls for outcomes, and between two progress reports.
COMMANDS_PER_POLL = 2000


class SentCommand(NamedTuple):
    """A command, and its position in the commands topic."""

    command: ReadyCommand
    partition: int
    offset: int


class SentCommands(NamedTuple):
    """The result of sending many commands."""

    aggregates: Mapping[str, int]  # aggregate → number of commands
    seconds: float  # duration

    @property
    def total(self) -> int:
        """The number of commands to all aggregates."""
        return sum(self.aggregates.values())


#: The first bytes of files that some editors save as UTF-8 and UTF-16.
_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_lines(lines: Iterable[bytes], aggregates: Mapping[str, Aggregate]) -> Iterator[ReadyCommand]:
    """Yield the commands in lines of JSON; blank lines are skipped. `aggregates`: by name.

    Raises `UsageError`, with the line number, for the first line that is not a command to one of the `aggregates`, or
    that an owner would fail because it cannot read it.
    """
    for number, line in enumerate(lines, 1):
        if line.isspace():
            continue
        if number == 1 and line.startswith(_BYTE_ORDER_MARKS):
            raise UsageError("line 1 begins with a byte order mark", "save the file as UTF-8 without it")
        try:
            command = complete_line(line)
        except UnicodeDecodeError:
            raise UsageError(f"line {number} is not UTF-8", "save the file as UTF-8") from None
        except ValueError as error:
            raise UsageError(f"line {number}: {error}") from None
        if command.aggregate not in aggregates:
            raise UsageError(
                f"line {number}: no aggregate {command.aggregate!r}; known: {', '.join(aggregates)}"
            )
        try:
            require_decodable(aggregates[command.aggregate], command)
        except CheckFailed as failure:
            raise UsageError(f"line {number}: {failure.message}") from None
        yield command


def send_one(producer: CommandProducer, topics: Topics, command: ReadyCommand) -> SentCommand:
    """Send one command, and wait until it is delivered."""
    positions: list[tuple[int, int]] = []
    producer.send(
        topics.commands,
        command.subject.encode(),
        command.value,
        lambda *position: positions.append(position),
    )
    producer.flush()
    ((partition, offset),) = positions
    return SentCommand(command, partition, offset)


def send_all(
    producer: CommandProducer,
    topics: Mapping[str, Topics],
    commands: Iterable[ReadyCommand],
    progress: Callable[[int], None],
) -> SentCommands:
    """Send all commands, and wait until they are delivered. `topics`: by aggregate name. `progress` gets the number of
    commands sent so far.

    The message of an error contains the number of commands that were delivered. These are the first commands, without
    gaps.
    """
    started_at = time.monotonic()
    counts: Counter[str] = Counter()

    def send(command: ReadyCommand) -> None:
        producer.send(topics[command.aggregate].commands, command.subject.encode(), command.value)
        counts[command.aggregate] += 1

    for sent_count in _send_each(producer, commands, send):
        progress(sent_count)
    return SentCommands(dict(counts), round(time.monotonic() - started_at, 3))


def send_and_wait(
    producer: CommandProducer,
    waiter: OutcomeWaiter,
    topics: Mapping[str, Topics],
    commands: Iterable[ReadyCommand],
    timeout: float,
) -> Iterator[list[ReceivedOutcome]]:
    """Send all commands, and yield their outcomes as they arrive. `topics`: by aggregate name.

    Stop early if no outcome arrives for `timeout` seconds; `waiter.outstanding` then has the ids of the commands
    without an outcome. At an invalid line, first wait for the outcomes of the commands before it, then raise its
    `UsageError`. Raise any other error at once.
    """
    outcomes: list[ReceivedOutcome] = []
    line_error: UsageError | None = None

    def send(command: ReadyCommand) -> None:
        waiter.send(topics[command.aggregate], command.subject.encode(), command.value, command.id)
        if producer.sent_count % COMMANDS_PER_POLL == 0:
            outcomes.extend(waiter.poll_outcomes())

    try:
        for _ in _send_each(producer, commands, send):
            yield outcomes
            outcomes = []
    except UsageError as error:
        line_error = error
    yield outcomes
    yield from waiter.remaining_outcomes(timeout)
    if line_error is not None:
        raise line_error


def send_one_and_wait(
    waiter: OutcomeWaiter, topics: Topics, command: ReadyCommand, timeout: float
) -> list[ReceivedOutcome]:
    """Send one command, and wait at most `timeout` seconds for its outcome. Return a list with the outcome, or an empty
    list.
    """
    waiter.send(topics, command.subject.encode(), command.value, command.id)
    return [outcome for batch in waiter.remaining_outcomes(timeout) for outcome in batch]


def _send_each(
    producer: CommandProducer, commands: Iterable[ReadyCommand], send: Callable[[ReadyCommand], None]
) -> Iterator[int]:
    """Send all commands and wait until they are delivered. Yield the number of sent commands after every
    `COMMANDS_PER_POLL` commands.
    """
    try:
        for command in commands:
            send(command)
            if producer.sent_count % COMMANDS_PER_POLL == 0:
                yield producer.sent_count
        producer.flush()
    except UsageError as error:
        producer.flush()
        raise UsageError(
            error.message, f"{_sent_text(producer)} before it: correct the line, and send the remaining lines"
        ) from None
    except CqrsError as error:
        producer.discard_queued()
        raise type(error)(f"{error.message}; {_sent_text(producer)}", error.hint) from error
    except KeyboardInterrupt:
        producer.discard_queued()
        raise


def _sent_text(producer: CommandProducer) -> str:
    count = producer.delivered_count
    return f"{count:,} command{' was' if count == 1 else 's were'} sent"


@contextmanager
def open_lines(file: str) -> Iterator[IO[bytes]]:
    """Open a file for reading, or stdin for `-`; raise `UsageError` if the file cannot be read."""
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "name a file, or - for stdin") from None
    with stream:
        yield stream
