"""The output of `cqrs dead-letters`."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import printable
from cqrs_cli.cli.result import Result
from cqrs_cli.client.queries.dead_letters import letter_document
from cqrs_cli.kafka.position_notation import format_position

if TYPE_CHECKING:
    from cqrs_cli.client.queries.dead_letters import FailedCommand


def dead_letter_result(failed_command: "FailedCommand") -> Result:
    """Return a dead letter, on one line."""
    return Result(*_document_and_line(failed_command))


def full_dead_letter_result(failed_command: "FailedCommand") -> Result:
    """Return a dead letter with its record."""
    from cqrs_cli.cli.render.record import record_document

    document, line = _document_and_line(failed_command)
    headers = [
        f"  {name}: {(content or b'').decode(errors='replace')}"
        for name, content in failed_command.record.headers or ()
    ]
    value = (failed_command.record.value or b"").decode(errors="backslashreplace")
    details = [
        printable(text) for text in (f"  command: {failed_command.command_position}", *headers, f"  {value}")
    ]
    return Result(
        {**document, "record": record_document(failed_command.partition, failed_command.record)},
        [line, *details],
    )


def _document_and_line(failed_command: "FailedCommand") -> tuple[dict[str, Any], str]:
    document, command = letter_document(failed_command), failed_command.command
    command_text = "?" if command is None else f"{command.subject}  {command.type}  {command.id}"
    position = format_position(failed_command.partition, failed_command.offset)
    line = f"{failed_command.time}  {position}  {command_text}  {failed_command.reason}: {failed_command.message}"
    return document, printable(line)
