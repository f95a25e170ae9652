"""The progress and the result of processes, and the findings of `cqrs verify --process`."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.render.verify import violations_text
from cqrs_cli.cli.result import Result, listed
from cqrs_cli.formatting import counted

if TYPE_CHECKING:
    from cqrs_cli.following.processes.plan import ProcessProgress
    from cqrs_cli.proof.reactions import Reactions


def reacted_text(done: "ProcessProgress") -> str:
    """The events that processes handled, the commands that followed, and their position."""
    led = f"{counted(done.events, 'event')} led to {counted(done.commands, 'command')}"
    worked = f"{led} in {done.seconds:.3g} s; " if done.seconds else ""
    return f"{worked}at {done.position:,} of {done.position + done.lag:,} records"


def listening(progress: "ProcessProgress") -> str:
    """Return the message that is printed once, when each partition has been claimed."""
    names = ", ".join(progress.lags())
    return f"{names}: listening; what is recorded from now on is reacted to, whatever happens"


def proved(name: str, found: "Reactions") -> Result:
    """The findings of `cqrs verify --process`."""
    document = {
        "process": name,
        "events": found.events,
        "commands": found.commands,
        "accepted_losses": found.accepted,
        "unknown": found.unknown,
        "violations": found.named,
        "violation_count": found.count,
    }
    said = listed(found.named, found.count)
    seen = f"{counted(found.events, 'event')} below its position, {counted(found.commands, 'command')}"
    said.append(f"process {name}: {seen}")
    if found.accepted:
        said.append(f"missing, which an operator accepted: {counted(found.accepted, 'command')}")
    if found.unknown:
        unknown = counted(found.unknown, "command")
        said.append(f"of events that are deleted, or before an accepted loss: {unknown}")
    return Result(document, [*said, violations_text(found.count)])
