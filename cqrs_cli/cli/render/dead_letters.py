"""The output of `cqrs dead-letters`."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import printable
from cqrs_cli.cli.result import Result
from cqrs_cli.kafka.position_notation import format_position

if TYPE_CHECKING:
    from cqrs_cli.client.queries.dead_letters import FailedCommand


def dead_letter_result(failed: "FailedCommand") -> Result:
    """Return a dead letter, on one line."""
    return Result(*_document_and_line(failed))


def full_dead_letter_result(failed: "FailedCommand") -> Result:
    """Return a dead letter with its record."""
    from cqrs_cli.cli.render.record import record_document

    document, line = _document_and_line(failed)
    headers = [
        f"  {name}: {(content or b'').decode(errors='replace')}"
        for name, content in failed.record.headers or ()
    ]
    value = (failed.record.value or b"").decode(errors="backslashreplace")
    details = [printable(text) for text in (f"  command: {failed.command_position}", *headers, f"  {value}")]
    return Result({**document, "record": record_document(failed.partition, failed.record)}, [line, *details])


def _document_and_line(failed: "FailedCommand") -> tuple[dict[str, Any], str]:
    command = failed.command
    document = {
        "partition": failed.partition,
        "offset": failed.offset,
        "time": failed.time,
        "reason": failed.reason,
        "message": failed.message,
        "command": failed.command_position,
        "id": failed.id or None,
        "aggregate_id": None if command is None else command.subject,
        "type": None if command is None else command.type,
    }
    command_text = "?" if command is None else f"{command.subject}  {command.type}  {command.id}"
    position = format_position(failed.partition, failed.offset)
    line = f"{failed.time}  {position}  {command_text}  {failed.reason}: {failed.message}"
    return document, printable(line)
