"""Dead letters: as JSON, and for people."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import printable

if TYPE_CHECKING:
    from cqrs_cli.client.queries.dead_letters import FailedCommand


def letter_document(one: "FailedCommand") -> dict[str, Any]:
    return {
        "partition": one.partition,
        "offset": one.offset,
        "time": one.time,
        "reason": one.reason,
        "message": one.message,
        "command": one.place,
        "id": one.id or None,
        "aggregate_id": None if one.command is None else one.command.subject,
        "type": None if one.command is None else one.command.type,
    }


def letter_line(one: "FailedCommand") -> str:
    told = "?" if one.command is None else f"{one.command.subject}  {one.command.type}  {one.command.id}"
    return printable(f"{one.time}  {one.partition}/{one.offset}  {told}  {one.reason}: {one.message}")


def whole_document(one: "FailedCommand") -> dict[str, Any]:
    """A dead letter with its record."""
    from cqrs_cli.cli.render.record import record_document

    return {**letter_document(one), "record": record_document(one.partition, one.record)}


def whole_text(one: "FailedCommand") -> str:
    headers = [
        f"  {name}: {(content or b'').decode(errors='replace')}" for name, content in one.record.headers or ()
    ]
    value = (one.record.value or b"").decode(errors="backslashreplace")
    lines = [letter_line(one), f"  command: {one.place}", *headers, f"  {value}"]
    return "\n".join(map(printable, lines))
