"""Shows how far processes came."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cqrs_cli.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.cli.context import Cli
    from cqrs_cli.following.processes.plan import ProcessProgress
    from cqrs_cli.following.processes.status import SubscriptionStatus
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


def process_status_document(seen: Mapping[str, Sequence["SubscriptionStatus"]]) -> dict[str, Any]:
    """The part of `cqrs status` about processes, by name."""
    return {
        name: {"lag": sum(part.lag for part in parts), "partitions": [_hearing(part) for part in parts]}
        for name, parts in seen.items()
    }


def _hearing(part: "SubscriptionStatus") -> dict[str, Any]:
    from cqrs_cli.core.messages.timestamps import rfc3339
    from cqrs_cli.ownership.claim import TERMINAL

    claim = None if part.position is None else part.position.claim
    return {
        "topic": part.subscription.source.topic,
        "partition": part.subscription.source.partition,
        "start": part.start,
        "end": part.end,
        "position": None if part.position is None else part.position.offset,
        "lag": part.lag,
        "owner": None
        if claim is None
        else {
            "run": claim.run,
            "since": rfc3339(claim.run_epoch),
            "stopped": claim.attempt == TERMINAL,
        },
        "stopped_at": part.stopped_at,
        "waits_for": part.blocked or None,
    }


def process_status_table(parts: Iterable["SubscriptionStatus"]) -> "RenderableType":
    """The same for people, with what they should look at below."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for header in ("process", "log end", "reacted to", "lag", "owner", "since"):
        table.add_column(header, justify="left" if header in ("process", "owner", "since") else "right")
    remarks: list[str] = []
    for part in parts:
        found, source = _hearing(part), part.subscription.source
        owner = found["owner"] or {"run": "none", "since": "", "stopped": False}
        table.add_row(
            f"{part.subscription.process} {source.aggregate} {source.partition}",
            f"{part.end:,}",
            "none" if part.position is None else f"{part.position.offset:,}",
            f"{part.lag:,}",
            f"{owner['run']}{' (stopped)' if owner['stopped'] else ''}",
            owner["since"],
        )
        remarks += part.remarks()
    return Group(table, *map(Text, remarks))


def reactions_document(name: str, found: "Reactions") -> dict[str, Any]:
    """The findings of `cqrs verify --process`."""
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
