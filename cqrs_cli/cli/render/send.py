"""What `cqrs send` does with commands that are ready: send, wait, print."""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import msgspec

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import counted, printable
from cqrs_cli.client.compose import Composed
from cqrs_cli.client.outcomes import OutcomeWaiter, ReceivedOutcome, is_refused
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.client.send import read_lines, send_all
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, Verdict
from cqrs_cli.errors import CqrsError, NoOutcomeError, RefusedError, UnavailableError, UsageError

if TYPE_CHECKING:
    from cqrs_cli.kafka.topics.topics import Topics

#: So many ids are named in a line of text; JSON has all of them.
IDS_IN_TEXT = 3

#: Lines of a file between two looks at the outcomes, and between two updates of the progress.
LINES_PER_LOOK = 2000


def send_one(cli: Cli, composed: Composed) -> None:
    """Send one command and print where it went."""
    places: list[tuple[int, int]] = []
    with CommandProducer(cli.connection(), cli.settings.partitioner) as sender:
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
    printed = _Printed(cli, "--id ")
    with (
        CommandProducer(connection, cli.settings.partitioner) as sender,
        OutcomeWaiter(connection, sender) as awaited,
        cli.working("waiting for the outcome"),
        printed.naming_what_is_open(awaited),
    ):
        awaited.send(cli.topics(composed.aggregate), composed.subject.encode(), composed.value, composed.id)
        outcomes = list(awaited.rest(patience))
    printed.print(outcomes)
    printed.conclude(awaited.outstanding, patience)


def send_file(cli: Cli, file: str, patience: float | None) -> None:
    """Send the lines of a file, `-` for stdin, and print how many; with `patience` wait, and print each outcome."""
    known = cli.aggregate_names()
    topics: dict[str, Topics] = {name: cli.topics(name) for name in known}
    with _opened(file) as lines:
        connection = cli.connection()
        with CommandProducer(
            connection, cli.settings.partitioner, bulk=True, reports=patience is not None
        ) as sender:
            commands = read_lines(lines, known)
            if patience is None:
                _send_lines(cli, commands, sender, topics)
            else:
                with OutcomeWaiter(connection, sender) as awaited:
                    _send_lines_and_wait(cli, commands, awaited, sender, topics, patience)


def _send_lines(
    cli: Cli, commands: Iterable[Composed], sender: CommandProducer, topics: dict[str, "Topics"]
) -> None:
    began = time.monotonic()
    counts: Counter[str] = Counter()
    with cli.working("sending") as now:

        def send(composed: Composed) -> None:
            sender.send(topics[composed.aggregate].commands, composed.subject.encode(), composed.value)
            counts[composed.aggregate] += 1
            if sender.sent % LINES_PER_LOOK == 0:
                now(f"sent {sender.sent:,} commands")

        send_all(commands, sender, send)
    seconds = round(time.monotonic() - began, 3)
    sent = counts.total()
    cli.result(
        {"sent": sent, "seconds": seconds, "aggregates": dict(counts)},
        f"sent {counted(sent, 'command')} in {seconds} s",
    )


def _send_lines_and_wait(
    cli: Cli,
    commands: Iterable[Composed],
    awaited: OutcomeWaiter,
    sender: CommandProducer,
    topics: dict[str, "Topics"],
    patience: float,
) -> None:
    printed = _Printed(cli)
    bad_line: UsageError | None = None

    def send(composed: Composed) -> None:
        awaited.send(topics[composed.aggregate], composed.subject.encode(), composed.value, composed.id)
        if sender.sent % LINES_PER_LOOK == 0:
            printed.print(awaited.arrived())

    with printed.naming_what_is_open(awaited):
        try:
            send_all(commands, sender, send)
        except UsageError as error:
            bad_line = error  # what was sent before it is decided all the same
        printed.print(awaited.rest(patience))
    if bad_line is not None:
        raise printed.with_what_is_open(bad_line, awaited.outstanding, patience)
    printed.conclude(awaited.outstanding, patience)


class _Printed:
    """Outcomes on stdout, counted by status. `flag` stands before an id that is named: how to send it again."""

    def __init__(self, cli: Cli, flag: str = "") -> None:
        self.cli = cli
        self.flag = flag
        self.counts: Counter[str] = Counter()
        self.refusals = 0
        self.first_refusal = ""

    def print(self, outcomes: Iterable[ReceivedOutcome]) -> None:
        for outcome in outcomes:
            self.cli.row(msgspec.Raw(outcome.value), outcome_line(outcome.read))
            self.counts[outcome.read.data.status] += 1
            if is_refused(outcome.read):
                self.refusals += 1
                self.first_refusal = self.first_refusal or outcome_line(outcome.read)
        self.cli.flush()

    @contextmanager
    def naming_what_is_open(self, awaited: OutcomeWaiter) -> Iterator[None]:
        """Who stops waiting, or loses the broker, is told which commands may be decided all the same."""
        try:
            yield
        except KeyboardInterrupt:
            if ids := awaited.outstanding:
                self.cli.note(f"stopped waiting for {counted(len(ids), 'outcome')}; {self._again(ids)}")
            raise
        except UnavailableError as error:
            if ids := awaited.outstanding:
                raise _extended(error, self._again(ids), ids) from error
            raise

    def conclude(self, missing: Sequence[str], patience: float) -> None:
        """Raise `RefusedError` if there was a refusal, else `NoOutcomeError` if an outcome is missing."""
        total = self.counts.total() + len(missing)
        if self.refusals:
            refusal = RefusedError(
                f"{self.refusals:,} of {counted(total, 'command')} refused",
                f"the first: {self.first_refusal}",
            )
            raise self.with_what_is_open(refusal, missing, patience)
        if missing:
            again = f"it may still be decided: see that cqrs run runs; {self._again(missing)}"
            raise NoOutcomeError(self._lacking(missing, patience), again, _listed(missing))
        if total > 1:
            self.cli.note(", ".join(f"{count:,} {status}" for status, count in self.counts.most_common()))

    def with_what_is_open(self, error: CqrsError, missing: Sequence[str], patience: float) -> CqrsError:
        """The error, and beside it which commands have no outcome, if any."""
        if not missing:
            return error
        message = f"{error.message}; {self._lacking(missing, patience)}"
        return _extended(type(error)(message, error.hint), self._again(missing), missing)

    def _lacking(self, missing: Sequence[str], patience: float) -> str:
        total = self.counts.total() + len(missing)
        return f"no outcome within {patience:g} s for {len(missing):,} of {counted(total, 'command')}"

    def _again(self, ids: Sequence[str]) -> str:
        named = ", ".join(f"{self.flag}{id}" for id in ids[:IDS_IN_TEXT])
        more = f" and {len(ids) - IDS_IN_TEXT:,} more (-o json lists all)" if len(ids) > IDS_IN_TEXT else ""
        return f"sending again with the same id{'s' * (len(ids) > 1)} is safe: {named}{more}"


def _extended(error: CqrsError, hint: str, ids: Sequence[str]) -> CqrsError:
    return type(error)(error.message, "; ".join(text for text in (error.hint, hint) if text), _listed(ids))


def _listed(ids: Sequence[str]) -> dict[str, object]:
    return {"without_outcome": list(ids)}


def outcome_line(outcome: OutcomeEnvelope) -> str:
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
