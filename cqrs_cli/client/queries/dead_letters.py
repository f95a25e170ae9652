"""The failed commands of an aggregate, read from its dead letters, and how to retry them."""

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import UNSET

from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.core.deferral.document import plain_document
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.json import encode_json, read_members
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.reasons import REMEMBERED, CheckFailed
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.kafka.topics.topics import Topics

#: The prefix of the headers that a dead letter has in addition to the command's own headers.
_WHY = "cqrs."

#: Attributes of the first attempt, which a retry leaves out.
_SPENT = ("notbefore", "deferredfrom", "attempt")


class FailedCommand(msgspec.Struct, frozen=True):
    """A dead letter. `command` is None if the record cannot be read as a command."""

    partition: int
    offset: int
    time: str
    reason: str
    message: str
    place: str  # of the command that failed, `P@OFFSET`
    record: Record
    command: CommandEnvelope | None

    @property
    def id(self) -> str:
        """The command's id; empty if unknown."""
        return "" if self.command is None else self.command.id


def failed_commands(
    placed: Iterator[tuple[int, Record]], keep: Callable[[FailedCommand], bool]
) -> Iterator[FailedCommand]:
    """Yield the dead letters in `placed` (partition, record) that the filter `keep` accepts."""
    for partition, record in placed:
        told = {name: (content or b"").decode(errors="replace") for name, content in record.headers or []}
        own = [header for header in record.headers or [] if not header[0].startswith(_WHY)]
        plain = Record(record.offset, record.timestamp, record.key, record.value, own)
        try:
            command = read_command(plain)
        except CheckFailed:
            command = None
        found = FailedCommand(
            partition,
            record.offset,
            rfc3339(record.timestamp),
            told.get("cqrs.reason", ""),
            told.get("cqrs.message", ""),
            format_position(told.get("cqrs.partition", ""), told.get("cqrs.offset", "")),
            plain,
            command,
        )
        if keep(found):
            yield found


def open_letters(
    connection: Connection, topics: Topics, letters: Iterable[FailedCommand]
) -> Callable[[FailedCommand], bool]:
    """Return a filter for open dead letters: the last letter of each command, if no decision followed it.

    Reads the outcomes from the time of the oldest letter on, and keeps the commands' ids in memory. The filter also
    accepts letters whose command cannot be read.
    """
    last: dict[tuple[str, str], tuple[int, int]] = {}  # by subject and id: partition and offset
    times: dict[tuple[int, int], int] = {}
    oldest: dict[int, int] = {}
    for one in letters:
        if one.command is not None:
            place = one.partition, one.offset
            times.pop(last.get((one.command.subject, one.id), place), None)
            last[one.command.subject, one.id] = place
            times[place] = one.record.timestamp
            oldest[one.partition] = min(one.record.timestamp, oldest.get(one.partition, one.record.timestamp))
    for partition, moment in oldest.items():
        log = PartitionLog(connection, topics, partition)
        start = log.offset_at("outcomes", moment)
        if start is None:
            continue
        for records in log.read("outcomes", start, log.bounds("outcomes")[1]):
            for record in records:
                try:
                    outcome = read_outcome(record.value)
                except ValueError:  # a foreign record, which `verify` reports
                    continue
                if outcome.data.status in REMEMBERED or outcome.data.original is not UNSET:
                    decided = last.get((outcome.subject or "", outcome.causationid or ""))
                    if decided is not None and record.timestamp > times.get(decided, record.timestamp):
                        del times[decided]
    return lambda one: one.command is None or (one.partition, one.offset) in times


def oldest_letters(
    letters: Iterable[FailedCommand], keep: Callable[[FailedCommand], bool]
) -> Iterator[FailedCommand]:
    """Yield the letters of each partition before the first letter that `keep` rejects."""
    ended: set[int] = set()
    for one in letters:
        if one.partition not in ended and keep(one):
            yield one
        else:
            ended.add(one.partition)


def retried(aggregate: str, failed: FailedCommand) -> ReadyCommand | None:
    """Return the command with its id, to send it again; None for a malformed command, which would fail again."""
    if failed.command is None:
        return None
    try:
        members = read_members(plain_document(failed.record, failed.command))
    except CheckFailed:
        return None
    kept = {name: value for name, value in members.items() if name not in _SPENT}
    return ReadyCommand(
        failed.command.id, aggregate, failed.command.subject, failed.command.type, encode_json(kept)
    )
