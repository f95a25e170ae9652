"""The progress and the result of process managers, and the findings of `cqrs verify --process`."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.render.verify import violations_text
from cqrs_cli.cli.result import Result, first_lines
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.following.processes.plan import ProcessProgress
    from cqrs_cli.proof.reactions import ReactionFindings


def process_result_text(progress: "ProcessProgress") -> str:
    """Return the number of handled events and of the records that followed, and the position."""
    events_text = f"{counted(progress.events, 'event')} led to {counted(progress.commands, 'new record')}"
    events_part = f"{events_text} in {progress.seconds:.3g} s; " if progress.events else ""
    return f"{events_part}at {progress.position:,} of {progress.position + progress.lag:,} records"


def processes_started_note(progress: "ProcessProgress") -> str:
    """Return the message that is printed once, when each partition has been claimed."""
    names = ", ".join(progress.lags())
    return f"{names}: subscribed; every event from now on will be handled, also after a crash"


def process_verify_result(name: str, findings: "ReactionFindings") -> Result:
    """Return the findings of `cqrs verify --process`."""
    document = {
        "process": name,
        "events": findings.event_count,
        "commands": findings.command_count,
        "accepted_losses": findings.accepted_losses,
        "unknown": findings.unknown_commands,
        "violations": findings.listed_violations,
        "violation_count": findings.violation_count,
    }
    lines = first_lines(findings.listed_violations, findings.violation_count)
    event_text = counted(findings.event_count, "event")
    command_text = counted(findings.command_count, "command")
    lines.append(f"process {name}: {event_text} before its position, {command_text}")
    if findings.accepted_losses:
        lines.append(f"losses that an operator accepted: {counted(findings.accepted_losses, 'command')}")
    if findings.unknown_commands:
        unknown_count = counted(findings.unknown_commands, "command")
        lines.append(
            f"not verified, because their events are deleted or before an accepted loss: {unknown_count}"
        )
    return Result(document, [*lines, violations_text(findings.violation_count)])
