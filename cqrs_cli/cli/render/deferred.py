"""The output of `cqrs deferred`: deferred commands."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.output import printable
from cqrs_cli.cli.result import Result
from cqrs_cli.client.queries.deferred import command_type, deferral_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from cqrs_cli.core.deferral.entry import Deferral


def deferral_result(entry: "Deferral", redact: "Callable[[bytes], bytes]") -> Result:
    """Return a deferred command, on one line. `redact` replaces personal fields in the document's command."""
    document = deferral_document(entry, redact(entry.command))
    attempt = f"attempt {entry.attempt}" if entry.attempt else ""
    state = document["state"]
    parts = (
        document["due"],
        f"{state:<9}",
        entry.subject,
        command_type(entry),
        entry.id,
        entry.reason,
        attempt,
    )
    return Result(document, [printable("  ".join(parts).rstrip())])
