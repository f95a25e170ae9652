"""Shows how far processes came."""

from typing import TYPE_CHECKING, Any

from cqrs_cli.words import counted

if TYPE_CHECKING:
    from cqrs_cli.cli.context import Cli
    from cqrs_cli.following.processes.plan import ProcessProgress
    from cqrs_cli.proof.reactions import Reactions

#: Violations that are listed for people.
_MOST_LINES = 10


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


class Listening:
    """Says once that the processes of a run have begun to listen."""

    def __init__(self, cli: "Cli") -> None:
        self._cli, self._said = cli, False

    def show(self, progress: "ProcessProgress") -> None:
        """Take in how far they are."""
        if progress.listens and not self._said:
            self._said = True
            names = ", ".join(progress.lags())
            self._cli.note(
                f"{names}: listening; what is recorded from now on is reacted to, whatever happens"
            )


def reactions_document(name: str, found: "Reactions") -> dict[str, Any]:
    """The findings of `cqrs verify process`."""
    return {
        "process": name,
        "events": found.events,
        "commands": found.commands,
        "accepted_losses": found.accepted,
        "unknown": found.unknown,
        "violations": found.named,
        "violation_count": found.count,
    }


def reactions_lines(name: str, found: "Reactions") -> list[str]:
    """The same for people."""
    said = found.named[:_MOST_LINES]
    if (more := found.count - len(said)) > 0:
        said.append(f"and {more:,} more: see -o json")
    said.append(
        f"process {name}: {counted(found.events, 'event')} below its position, {counted(found.commands, 'command')}"
    )
    if found.accepted:
        said.append(f"missing, which an operator accepted: {counted(found.accepted, 'command')}")
    if found.unknown:
        said.append(
            f"of events that are deleted, or before an accepted loss: {counted(found.unknown, 'command')}"
        )
    return [*said, counted(found.count, "violation") if found.count else "no violation"]
