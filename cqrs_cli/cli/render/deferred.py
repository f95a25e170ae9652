"""The output of `cqrs deferred`: deferred commands."""

from typing import TYPE_CHECKING

import msgspec

from cqrs_cli.cli.output import printable
from cqrs_cli.cli.result import Result
from cqrs_cli.client.queries.deferred import command_type
from cqrs_cli.core.messages.timestamps import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable

    from cqrs_cli.core.deferral.entry import Deferral


def deferral_result(entry: "Deferral", redact: "Callable[[bytes], bytes]") -> Result:
    """Return a deferred command, on one line. `redact` replaces personal fields in the document's command."""
    due = rfc3339(entry.due)
    state = "parked" if entry.resubmitted_offset is None else "released"
    if entry.cancelled:
        state = "cancelled"
    document = {
        "id": entry.id,
        "aggregate_id": entry.subject,
        "due": due,
        "reason": entry.reason,
        "attempt": entry.attempt,
        "state": state,
        "offset": entry.offset,
        "said": entry.resubmitted_offset,
        "cancelled": entry.cancelled,
        "command": msgspec.Raw(redact(entry.command)),
    }
    attempt = f"attempt {entry.attempt}" if entry.attempt else ""
    parts = (due, f"{state:<9}", entry.subject, command_type(entry), entry.id, entry.reason, attempt)
    return Result(document, [printable("  ".join(parts).rstrip())])
