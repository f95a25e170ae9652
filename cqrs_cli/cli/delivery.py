"""What `cqrs send` does with commands that are ready: send, wait, print."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from cqrs_cli.cli.frame import Cli
from cqrs_cli.cli.output import printable
from cqrs_cli.commands import Composed
from cqrs_cli.core.outcome import OutcomeEnvelope, Verdict
from cqrs_cli.errors import NoOutcomeError, RefusedError, UsageError
from cqrs_cli.kafka.awaited import Awaited, Outcome, refused
from cqrs_cli.kafka.sender import Sender
from cqrs_cli.sending import read_lines, send_all

if TYPE_CHECKING:
    from cqrs_cli.kafka.topics import Topics

#: Lines of a file between two looks at the outcomes, and between two updates of the progress.
PACE = 2000


def send_one(cli: Cli, composed: Composed) -> None:
    """Send one command and print where it went."""
    places: list[tuple[int, int]] = []
    with Sender(cli.connection(), cli.settings.partitioner) as sender:
        topic = cli.topics(composed.aggregate).commands
        sender.send(topic, composed.subject.encode(), composed.value, lambda *place: places.append(place))
        sender.flush()
    ((partition, offset),) = places
    document = {
        "id": composed.id,
        "aggregate": composed.aggregate,
        "subject": composed.subject,
        "type": composed.type,
        "partition": partition,
        "offset": offset,
    }
    text = f"sent {composed.type} to {composed.subject} ({partition}/{offset}), id {composed.id}"
    cli.result(document, text)


def send_one_and_wait(cli: Cli, composed: Composed, patience: float) -> None:
    """Send one command, wait at most `patience` seconds and print what was decided; raises as `_Printed.conclude`."""
    connection = cli.connection()
    with (
        Sender(connection, cli.settings.partitioner) as sender,
        Awaited(connection, sender) as awaited,
        cli.working("waiting for the outcome"),
    ):
        awaited.send(cli.topics(composed.aggregate), composed.subject.encode(), composed.value)
        outcomes = list(awaited.rest(patience))
    printed = _Printed(cli)
    printed.print(outcomes)
    printed.conclude(awaited.outstanding, patience)


def send_file(cli: Cli, file: str, patience: float | None) -> None:
    """Send the lines of a file, `-` for stdin, and print how many; with `patience` wait, and print each outcome."""
    known = cli.aggregate_names()
    topics: dict[str, Topics] = {name: cli.topics(name) for name in known}
    with _opened(file) as lines:
        connection = cli.connection()
        with Sender(connection, cli.settings.partitioner, bulk=True, reports=patience is not None) as sender:
            commands = read_lines(lines, known)
            if patience is None:
                _send_lines(cli, commands, sender, topics)
            else:
                with Awaited(connection, sender) as awaited:
                    _send_lines_and_wait(cli, commands, awaited, sender, topics, patience)


def _send_lines(cli: Cli, commands: Iterable[Composed], sender: Sender, topics: dict[str, "Topics"]) -> None:
    began = time.monotonic()
    counts: Counter[str] = Counter()
    with cli.working("sending") as now:

        def send(composed: Composed) -> None:
            sender.send(topics[composed.aggregate].commands, composed.subject.encode(), composed.value)
            counts[composed.aggregate] += 1
            if sender.sent % PACE == 0:
                now(f"sent {sender.sent:,} commands")

        send_all(commands, sender, send)
    seconds = round(time.monotonic() - began, 3)
    sent = counts.total()
    cli.result(
        {"sent": sent, "seconds": seconds, "aggregates": dict(counts)},
        f"sent {sent:,} commands in {seconds} s",
    )


def _send_lines_and_wait(
    cli: Cli,
    commands: Iterable[Composed],
    awaited: Awaited,
    sender: Sender,
    topics: dict[str, "Topics"],
    patience: float,
) -> None:
    printed = _Printed(cli)

    def send(composed: Composed) -> None:
        awaited.send(topics[composed.aggregate], composed.subject.encode(), composed.value)
        if sender.sent % PACE == 0:
            printed.print(awaited.arrived())

    send_all(commands, sender, send)
    printed.print(awaited.rest(patience))
    printed.conclude(awaited.outstanding, patience)


class _Printed:
    """Outcomes on stdout, counted by status."""

    def __init__(self, cli: Cli) -> None:
        self.cli = cli
        self.counts: Counter[str] = Counter()
        self.refusals = 0
        self.first_refusal = ""

    def print(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self.cli.row(msgspec.Raw(outcome.value), describe(outcome.read))
            self.counts[outcome.read.data.status] += 1
            if refused(outcome.read):
                self.refusals += 1
                self.first_refusal = self.first_refusal or describe(outcome.read)
        self.cli.flush()

    def conclude(self, missing: int, patience: float) -> None:
        """Raise `RefusedError` if there was a refusal, else `NoOutcomeError` if an outcome is missing."""
        total = self.counts.total() + missing
        lacking = f"no outcome within {patience:g} s for {missing:,} of {total:,} commands"
        again = "it may still be decided: see that cqrs run runs; sending again with the same id is safe"
        if self.refusals:
            also = f"; {lacking}" if missing else ""
            raise RefusedError(
                f"{self.refusals:,} of {total:,} commands refused{also}", f"the first: {self.first_refusal}"
            )
        if missing:
            raise NoOutcomeError(lacking, again)
        if total > 1:
            self.cli.note(", ".join(f"{count:,} {status}" for status, count in self.counts.most_common()))


def describe(outcome: OutcomeEnvelope) -> str:
    """An outcome as one line of text: what was decided, on what, and why."""
    verdict = outcome.data
    kind = outcome.type.rpartition(".")[0] or "?"
    return printable(
        f"{verdict.status:<9}  {outcome.subject or '?'}  {kind}  version {verdict.version}  {_reason(verdict)}".rstrip()
    )


def _reason(verdict: Verdict) -> str:
    """Why, and of a duplicate what it repeats."""
    original = (
        f"first {verdict.original.status} at offset {verdict.original.offset}" if verdict.original else ""
    )
    return "  ".join(text for text in (original, verdict.reason, verdict.code, verdict.message) if text)


@contextmanager
def _opened(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = Path(file).open("rb")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", "name a file, or - for stdin") from None
    with opened:
        yield opened
