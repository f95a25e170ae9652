"""Reads the failed commands of an aggregate from its dead letters, and prepares retries."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from cqrs_cli.client.envelope import NO_ATTRIBUTION, Attribution, ReadyCommand
from cqrs_cli.core.deferral.document import structured_document
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.drop_record import is_drop_record
from cqrs_cli.core.messages.json import encode_json, read_members
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.reasons import REMEMBERED, CheckFailed
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.kafka import tailing
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.kafka.tailing import Origin
from cqrs_cli.kafka.topics.topics import Topics

#: The prefix of the names of the headers that a dead letter has in addition to the command's own headers.
_HEADER_PREFIX = "cqrs."

#: Attributes that belong to the failed attempt of a command: a retry leaves them out.
_FIRST_ATTEMPT_ONLY = ("notbefore", "deferredfrom", "attempt", "actor", "action")


class FailedCommand(msgspec.Struct, frozen=True):
    """A dead letter. `command` is None if the record cannot be read as a command."""

    partition: int
    offset: int
    time: str
    reason: str
    message: str
    command_position: str  # position of the failed command as `PARTITION@OFFSET`, such as `3@17`
    record: Record  # the dead letter with only the headers of the command
    command: CommandEnvelope | None

    @property
    def id(self) -> str:
        """The command's id; empty if unknown."""
        return "" if self.command is None else self.command.id


def failed_commands(
    records: Iterator[tuple[int, Record]], is_selected: Callable[[FailedCommand], bool]
) -> Iterator[FailedCommand]:
    """Yield the dead letters for which `is_selected` is True. `records`: (partition, record) of each dead letter."""
    for partition, record in records:
        header_texts = {
            name: (content or b"").decode(errors="replace") for name, content in record.headers or []
        }
        command_headers = [
            header for header in record.headers or [] if not header[0].startswith(_HEADER_PREFIX)
        ]
        command_record = Record(record.offset, record.timestamp, record.key, record.value, command_headers)
        try:
            command = read_command(command_record)
        except CheckFailed:
            command = None
        letter = FailedCommand(
            partition,
            record.offset,
            rfc3339(record.timestamp),
            header_texts.get("cqrs.reason", ""),
            header_texts.get("cqrs.message", ""),
            format_position(header_texts.get("cqrs.partition", ""), header_texts.get("cqrs.offset", "")),
            command_record,
            command,
        )
        if is_selected(letter):
            yield letter


def letter_document(letter: FailedCommand) -> dict[str, Any]:
    """Return a dead letter as JSON, without its record."""
    command = letter.command
    return {
        "partition": letter.partition,
        "offset": letter.offset,
        "time": letter.time,
        "reason": letter.reason,
        "message": letter.message,
        "command": letter.command_position,
        "id": letter.id or None,
        "aggregate_id": None if command is None else command.subject,
        "type": None if command is None else command.type,
    }


def read_letters(
    connection: Connection,
    topics: Topics,
    is_selected: Callable[[FailedCommand], bool],
    since: int | None = None,
    only_open: bool = False,
) -> Iterator[FailedCommand]:
    """Yield the dead letters since the time `since` (ms) for which `is_selected` is True, in the order of time.

    `only_open`: True for open letters only (`open_letter_filter`).
    """
    origin = Origin("beginning") if since is None else Origin("time", since)
    bounds = tailing.tail_bounds(connection, topics.dead_letters, origin, None, "none")

    def read(predicate: Callable[[FailedCommand], bool]) -> Iterator[FailedCommand]:
        records = tailing.merge_by_time(
            connection, topics.dead_letters, bounds, lambda record: not is_drop_record(record)
        )
        return failed_commands(records, predicate)

    if not only_open:
        return read(is_selected)
    is_open = open_letter_filter(connection, topics, read(lambda letter: True))
    return read(lambda letter: is_selected(letter) and is_open(letter))


def open_letter_filter(
    connection: Connection, topics: Topics, letters: Iterable[FailedCommand]
) -> Callable[[FailedCommand], bool]:
    """Return a filter that accepts the open dead letters in `letters`. A letter is open if it is its command's last
    letter, and no decision on the command followed.

    Reads the outcomes from the time of the oldest letter on, and keeps the commands' ids in memory. The filter also
    accepts letters whose command cannot be read.
    """
    # (subject, command id) → (partition, offset) of the command's last letter
    last_positions: dict[tuple[str, str], tuple[int, int]] = {}
    open_times: dict[tuple[int, int], int] = {}  # (partition, offset) of an open letter → its time in ms
    oldest_times: dict[int, int] = {}  # partition → time of its oldest letter in ms
    for letter in letters:
        if letter.command is not None:
            position = letter.partition, letter.offset
            open_times.pop(last_positions.get((letter.command.subject, letter.id), position), None)
            last_positions[letter.command.subject, letter.id] = position
            open_times[position] = letter.record.timestamp
            oldest_times[letter.partition] = min(
                letter.record.timestamp, oldest_times.get(letter.partition, letter.record.timestamp)
            )
    for partition, oldest_time in oldest_times.items():
        log = PartitionLog(connection, topics, partition)
        start = log.offset_at("outcomes", oldest_time)
        if start is None:
            continue
        for records in log.read("outcomes", start, log.bounds("outcomes")[1]):
            for record in records:
                try:
                    outcome = read_outcome(record.value)
                except ValueError:  # a foreign record, which `verify` reports
                    continue
                if outcome.data.status in REMEMBERED or outcome.data.original is not UNSET:
                    last_position = last_positions.get((outcome.subject or "", outcome.causationid or ""))
                    if last_position is not None and record.timestamp > open_times.get(
                        last_position, record.timestamp
                    ):
                        del open_times[last_position]
    return lambda letter: letter.command is None or (letter.partition, letter.offset) in open_times


def oldest_letters(
    letters: Iterable[FailedCommand], is_selected: Callable[[FailedCommand], bool]
) -> Iterator[FailedCommand]:
    """Yield the letters of each partition up to, but without, its first letter for which `is_selected` is False."""
    complete_partitions: set[int] = set()
    for letter in letters:
        if letter.partition not in complete_partitions and is_selected(letter):
            yield letter
        else:
            complete_partitions.add(letter.partition)


def retry_command(
    aggregate: str, failed_command: FailedCommand, attribution: Attribution = NO_ATTRIBUTION
) -> ReadyCommand | None:
    """Return the command of a dead letter, to send it again with its id; None for a malformed command, which would fail
    again.
    """
    if failed_command.command is None:
        return None
    try:
        members = read_members(structured_document(failed_command.record, failed_command.command))
    except CheckFailed:
        return None
    attributes: dict[str, Raw | str] = {
        name: value for name, value in members.items() if name not in _FIRST_ATTEMPT_ONLY
    }
    return ReadyCommand(
        failed_command.command.id,
        aggregate,
        failed_command.command.subject,
        failed_command.command.type,
        encode_json(attributes | attribution.members()),
    )
