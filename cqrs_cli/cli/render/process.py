"""The progress and the result of process managers, and the findings of `cqrs verify --process`."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.render.verify import violations_text
from cqrs_cli.cli.result import Result, first_lines
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.following.processes.plan import ProcessProgress
    from cqrs_cli.proof.reactions import Reactions


def process_result_text(progress: "ProcessProgress") -> str:
    """Return the number of handled events and of the commands that followed, and the position."""
    events_text = f"{counted(progress.events, 'event')} led to {counted(progress.commands, 'command')}"
    events_part = f"{events_text} in {progress.seconds:.3g} s; " if progress.events else ""
    return f"{events_part}at {progress.position:,} of {progress.position + progress.lag:,} records"


def processes_started_note(progress: "ProcessProgress") -> str:
    """Return the message that is printed once, when each partition has been claimed."""
    names = ", ".join(progress.lags())
    return f"{names}: subscribed; every event from now on will be handled, also after a crash"


def process_verify_result(name: str, reactions: "Reactions") -> Result:
    """Return the findings of `cqrs verify --process`."""
    document = {
        "process": name,
        "events": reactions.events,
        "commands": reactions.commands,
        "accepted_losses": reactions.accepted_losses,
        "unknown": reactions.unknown,
        "violations": reactions.listed,
        "violation_count": reactions.count,
    }
    lines = first_lines(reactions.listed, reactions.count)
    counts_text = (
        f"{counted(reactions.events, 'event')} before its position, {counted(reactions.commands, 'command')}"
    )
    lines.append(f"process {name}: {counts_text}")
    if reactions.accepted_losses:
        lines.append(f"losses that an operator accepted: {counted(reactions.accepted_losses, 'command')}")
    if reactions.unknown:
        unknown_count = counted(reactions.unknown, "command")
        lines.append(
            f"not verified, because their events are deleted or before an accepted loss: {unknown_count}"
        )
    return Result(document, [*lines, violations_text(reactions.count)])
