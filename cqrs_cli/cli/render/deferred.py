"""Commands that wait: as JSON, and for people."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import printable
from cqrs_cli.client.queries.deferred import command_type
from cqrs_cli.core.messages.timestamps import rfc3339

if TYPE_CHECKING:
    from cqrs_cli.core.deferral.entry import Deferral


def deferral_document(entry: "Deferral") -> dict[str, Any]:
    import msgspec

    return {
        "id": entry.id,
        "aggregate_id": entry.subject,
        "due": rfc3339(entry.due),
        "reason": entry.reason,
        "attempt": entry.attempt,
        "state": _state(entry),
        "offset": entry.offset,
        "said": entry.said,
        "cancelled": entry.cancelled,
        "command": msgspec.Raw(entry.command),
    }


def deferral_line(entry: "Deferral") -> str:
    parts = (
        rfc3339(entry.due),
        f"{_state(entry):<9}",
        entry.subject,
        command_type(entry),
        entry.id,
        entry.reason,
        f"attempt {entry.attempt}" if entry.attempt else "",
    )
    return printable("  ".join(parts).rstrip())


def _state(entry: "Deferral") -> str:
    return "cancelled" if entry.cancelled else "released" if entry.said is not None else "parked"
