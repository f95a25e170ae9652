"""The progress and the result of processes, and the findings of `cqrs verify process`."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.render.display import RecordsDisplay
from cqrs_cli.cli.render.verify import violations_text
from cqrs_cli.cli.result import Result, listed
from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.following.processes.plan import ProcessProgress
    from cqrs_cli.proof.reactions import Reactions


def reacted(done: "ProcessProgress") -> Result:
    """Return the positions of processes, and the number of commands that their events led to."""
    document = {
        "events": done.events,
        "commands": done.commands,
        "seconds": round(done.seconds, 3),
        "cpu_seconds": round(done.cpu, 3),
        "lag": done.lag,
        "positions": {name: one["positions"] for name, one in done.by_process().items()},
    }
    led = f"{counted(done.events, 'event')} led to {counted(done.commands, 'command')}"
    worked = f"{led} in {done.seconds:.3g} s; " if done.seconds else ""
    return Result(document, f"{worked}at {done.position:,} of {done.position + done.lag:,} records")


def listening(progress: "ProcessProgress") -> str:
    """Return the message that is printed once, when each partition has been claimed."""
    names = ", ".join(progress.lags())
    return f"{names}: listening; what is recorded from now on is reacted to, whatever happens"


class ProcessDisplay(RecordsDisplay["ProcessProgress"]):
    """Shows the progress of processes."""

    _listens = False

    def tell(self, now: "ProcessProgress") -> None:
        if now.listens and not self._listens:
            self._listens = True
            self.cli.note(listening(now))


def proved(name: str, found: "Reactions") -> Result:
    """Return the findings of `cqrs verify process`."""
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
