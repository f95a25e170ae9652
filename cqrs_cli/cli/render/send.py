"""Commands that were sent, and their outcomes: as JSON, and for people."""

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import printable
from cqrs_cli.cli.result import Result
from cqrs_cli.client.outcomes import OutcomeWaiter, ReceivedOutcome, is_failure
from cqrs_cli.client.send import SentCommand, SentCommands
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, Verdict
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.errors import CqrsError, NoOutcomeError, RefusedError, UnavailableError
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.position_notation import format_position

#: The largest number of ids in a line of text; JSON has all ids.
IDS_IN_TEXT = 3

#: The advice if there is no owner. It has no names, because a run of some aggregates ends a run of all aggregates.
_START = "unless a run is starting, start it"


def sent(one: SentCommand) -> Result:
    """Return the result for one sent command."""
    composed, partition, offset = one
    document = {
        "id": composed.id,
        "aggregate": composed.aggregate,
        "subject": composed.subject,
        "type": composed.type,
        "partition": partition,
        "offset": offset,
    }
    place = f"({format_position(partition, offset)}), id {composed.id}"
    return Result(document, f"sent {composed.type} to {composed.subject} {place}")


def all_sent(many: SentCommands, **more: int) -> Result:
    """Return the result for many sent commands."""
    document = {"sent": many.total, "seconds": many.seconds, "aggregates": many.aggregates, **more}
    return Result(document, f"sent {counted(many.total, 'command')} in {many.seconds} s")


class OutcomePrinter:
    """Prints outcomes and counts them by status. `flag` precedes an id in a hint about a second send."""

    def __init__(self, cli: Cli, waiter: OutcomeWaiter, patience: float, flag: str = "") -> None:
        self.cli = cli
        self.waiter = waiter
        self.patience = patience
        self.flag = flag
        self.counts: Counter[str] = Counter()
        self.refusals: list[OutcomeEnvelope] = []
        self.ownerless: list[str] = []

    def print(self, outcomes: Iterable[ReceivedOutcome]) -> None:
        """Print a row for each outcome."""
        for outcome in outcomes:
            self.cli.result(msgspec.Raw(outcome.value), outcome_line(outcome.envelope))
            self.counts[outcome.envelope.data.status] += 1
            if is_failure(outcome.envelope):
                self.refusals.append(outcome.envelope)
        self.cli.flush()

    def say_nobody_decides(self, connection: Connection) -> None:
        """Print a message about each aggregate whose commands wait in partitions without an owner."""
        from cqrs_cli.cli.ownerless_partitions import ownerless

        waiting: dict[str, set[int]] = {}
        prefix = self.cli.settings.topic_prefix
        for topic, partition in self.waiter.partitions:
            name = topic.removeprefix(prefix).removesuffix(".outcomes")
            waiting.setdefault(name, set()).add(partition)
        for name, partitions in sorted(waiting.items()):
            if alone := ownerless(connection, self.cli.topics(name), sorted(partitions)):
                self.ownerless.append(name)
                places = f"partition{'s' * (len(alone) > 1)} {', '.join(map(str, alone))}"
                start = self.cli.with_flags(f"{_START}: cqrs run")
                self.cli.note(f"nobody decides {name}, {places}; {start}; waiting all the same")

    @contextmanager
    def naming_what_is_open(self) -> Iterator[None]:
        """Report the commands that may still be decided, if the wait is interrupted or the broker is lost."""
        try:
            yield
        except KeyboardInterrupt:
            if ids := self.waiter.outstanding:
                self.cli.note(f"stopped waiting for {counted(len(ids), 'outcome')}; {self._again(ids)}")
            raise
        except UnavailableError as error:
            if ids := self.waiter.outstanding:
                raise _extended(error, self._again(ids), ids) from error
            raise

    def conclude(self) -> None:
        """Raise `RefusedError` if a command was rejected or failed, else `NoOutcomeError` if an outcome is missing."""
        missing = self.waiter.outstanding
        total = self._total()
        if self.refusals:
            raise self.with_what_is_open(refusal_of(self.refusals, total))
        if missing:
            start = f"{_START}: cqrs run" if self.ownerless else "see that cqrs run runs"
            again = f"it may still be decided: {start}; {self._again(missing)}"
            raise NoOutcomeError(self._lacking(missing), again, _listed(missing))
        if total > 1:
            self.cli.note(", ".join(f"{count:,} {status}" for status, count in self.counts.most_common()))

    def with_what_is_open(self, error: CqrsError) -> CqrsError:
        """Return the error, extended by the commands without an outcome, if there are any."""
        missing = self.waiter.outstanding
        if not missing:
            return error
        message = f"{error.message}; {self._lacking(missing)}"
        return _extended(type(error)(message, error.hint, error.more), self._again(missing), missing)

    def _total(self) -> int:
        return self.counts.total() + len(self.waiter.outstanding)

    def _lacking(self, missing: Sequence[str]) -> str:
        return f"no outcome within {self.patience:g} s for {len(missing):,} of {counted(self._total(), 'command')}"

    def _again(self, ids: Sequence[str]) -> str:
        named = ", ".join(f"{self.flag}{id}" for id in ids[:IDS_IN_TEXT])
        more = f" and {len(ids) - IDS_IN_TEXT:,} more (-o json lists all)" if len(ids) > IDS_IN_TEXT else ""
        return f"sending again with the same id{'s' * (len(ids) > 1)} is safe: {named}{more}"


def _extended(error: CqrsError, hint: str, ids: Sequence[str]) -> CqrsError:
    hints = "; ".join(text for text in (error.hint, hint) if text)
    return type(error)(error.message, hints, {**error.more, **_listed(ids)})


def _listed(ids: Sequence[str]) -> dict[str, object]:
    return {"without_outcome": list(ids)}


def refusal_of(refused: Sequence[OutcomeEnvelope], total: int) -> RefusedError:
    """Return the error for printed outcomes. It does not repeat them: it has the id of the first, and the next step."""
    first = refused[0]
    more = {"refused": len(refused), "first": first.causationid}
    if total == 1:
        return RefusedError("refused", _advice(first), more)
    where = f"the first: id {first.causationid}" if first.causationid else "the first has no id"
    return RefusedError(f"{len(refused):,} of {counted(total, 'command')} refused", where, more)


def _advice(outcome: OutcomeEnvelope) -> str:
    """Return the advice for the sender of a single command."""
    verdict = outcome.data
    if verdict.reason == Reason.HANDLER_ERROR.name:
        return "correct the aggregate's code, deploy it, and send the command again"
    if verdict.status == "failed":
        return "correct it, and send it again"
    if verdict.reason == Reason.ID_REUSED.name:
        return "give this command an --id of its own"
    if verdict.reason == Reason.EXPIRED.name:
        return "give it more time with --expires"
    aggregate, subject = outcome.type.partition(".")[0], shlex.quote(outcome.subject or "")
    return f"see its state: cqrs show {aggregate} {subject}"


def outcome_line(outcome: OutcomeEnvelope) -> str:
    """Return an outcome as one line of text: the status, the aggregate and the reason."""
    verdict = outcome.data
    kind = outcome.type.rpartition(".")[0]
    kind = kind if "." in kind else "?"  # for an unreadable command, or an unknown type
    return printable(
        f"{verdict.status:<9}  {outcome.subject or '?'}  {kind}  version {verdict.version}  {_reason(verdict)}".rstrip()
    )


def _reason(verdict: Verdict) -> str:
    """Return the reason, code and message; for a duplicate, first the outcome that it repeats."""
    original = (
        f"first {verdict.original.status} at offset {verdict.original.offset}" if verdict.original else ""
    )
    due = f"due {verdict.due}" if verdict.due else ""
    return "  ".join(text for text in (original, due, verdict.reason, verdict.code, verdict.message) if text)
