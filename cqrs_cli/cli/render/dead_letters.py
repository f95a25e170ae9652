"""The output of `cqrs dead-letters`."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import printable
from cqrs_cli.cli.result import Result
from cqrs_cli.kafka.position_notation import format_position

if TYPE_CHECKING:
    from cqrs_cli.client.queries.dead_letters import FailedCommand


def letter(one: "FailedCommand") -> Result:
    """Return a dead letter, on one line."""
    return Result(*_told(one))


def whole_letter(one: "FailedCommand") -> Result:
    """Return a dead letter with its record."""
    from cqrs_cli.cli.render.record import record_document

    document, line = _told(one)
    headers = [
        f"  {name}: {(content or b'').decode(errors='replace')}" for name, content in one.record.headers or ()
    ]
    value = (one.record.value or b"").decode(errors="backslashreplace")
    more = [printable(text) for text in (f"  command: {one.place}", *headers, f"  {value}")]
    return Result({**document, "record": record_document(one.partition, one.record)}, [line, *more])


def _told(one: "FailedCommand") -> tuple[dict[str, Any], str]:
    command = one.command
    document = {
        "partition": one.partition,
        "offset": one.offset,
        "time": one.time,
        "reason": one.reason,
        "message": one.message,
        "command": one.place,
        "id": one.id or None,
        "aggregate_id": None if command is None else command.subject,
        "type": None if command is None else command.type,
    }
    told = "?" if command is None else f"{command.subject}  {command.type}  {command.id}"
    line = f"{one.time}  {format_position(one.partition, one.offset)}  {told}  {one.reason}: {one.message}"
    return document, printable(line)
