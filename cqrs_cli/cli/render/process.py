"""Shows how far processes came."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.cli.output import counted

if TYPE_CHECKING:
    from cqrs_cli.processes.plan import ProcessProgress


def processes_document(done: "ProcessProgress") -> dict[str, Any]:
    """The document that `process --once` prints."""
    return {
        "events": done.events,
        "commands": done.commands,
        "seconds": round(done.seconds, 3),
        "cpu_seconds": round(done.cpu, 3),
        "lag": done.lag,
        "positions": {name: one["positions"] for name, one in done.by_process().items()},
    }


def processes_text(done: "ProcessProgress") -> str:
    """The same as a line."""
    worked = (
        f"{counted(done.events, 'event')} led to {counted(done.commands, 'command')} in {done.seconds:.3g} s; "
        if done.seconds
        else ""
    )
    return f"{worked}at {done.position:,} of {done.position + done.lag:,} records"
