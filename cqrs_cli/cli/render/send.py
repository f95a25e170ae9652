"""Commands that were sent, and their outcomes: as JSON, and for people."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import counted, printable
from cqrs_cli.client.outcomes import OutcomeWaiter, ReceivedOutcome, is_refused
from cqrs_cli.client.send import SentCommand, SentCommands
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, Verdict
from cqrs_cli.errors import CqrsError, NoOutcomeError, RefusedError, UnavailableError

#: Ids that a line of text names at most; JSON has all of them.
IDS_IN_TEXT = 3


def sent_document(sent: SentCommand) -> dict[str, Any]:
    """One sent command as JSON."""
    composed = sent.composed
    return {
        "id": composed.id,
        "aggregate": composed.aggregate,
        "subject": composed.subject,
        "type": composed.type,
        "partition": sent.partition,
        "offset": sent.offset,
    }


def sent_text(sent: SentCommand) -> str:
    """One sent command for people."""
    composed = sent.composed
    return f"sent {composed.type} to {composed.subject} ({sent.partition}/{sent.offset}), id {composed.id}"


def all_sent_document(sent: SentCommands) -> dict[str, Any]:
    """Many sent commands as JSON."""
    return {"sent": sent.total, "seconds": sent.seconds, "aggregates": sent.aggregates}


def all_sent_text(sent: SentCommands) -> str:
    """Many sent commands for people."""
    return f"sent {counted(sent.total, 'command')} in {sent.seconds} s"


class OutcomePrinter:
    """Prints outcomes and counts them by status. `flag` stands before an id in a hint: how to send it again."""

    def __init__(self, cli: Cli, waiter: OutcomeWaiter, patience: float, flag: str = "") -> None:
        self.cli = cli
        self.waiter = waiter
        self.patience = patience
        self.flag = flag
        self.counts: Counter[str] = Counter()
        self.refusals = 0
        self.first_refusal = ""

    def print(self, outcomes: Iterable[ReceivedOutcome]) -> None:
        """Print a row for each outcome."""
        for outcome in outcomes:
            self.cli.row(msgspec.Raw(outcome.value), outcome_line(outcome.read))
            self.counts[outcome.read.data.status] += 1
            if is_refused(outcome.read):
                self.refusals += 1
                self.first_refusal = self.first_refusal or outcome_line(outcome.read)
        self.cli.flush()

    @contextmanager
    def naming_what_is_open(self) -> Iterator[None]:
        """Name the commands that may still be decided, if the waiting is stopped or the broker is lost."""
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
        """Raise `RefusedError` if there was a refusal, else `NoOutcomeError` if an outcome is missing."""
        missing = self.waiter.outstanding
        total = self._total()
        if self.refusals:
            refusal = RefusedError(
                f"{self.refusals:,} of {counted(total, 'command')} refused",
                f"the first: {self.first_refusal}",
            )
            raise self.with_what_is_open(refusal)
        if missing:
            again = f"it may still be decided: see that cqrs run runs; {self._again(missing)}"
            raise NoOutcomeError(self._lacking(missing), again, _listed(missing))
        if total > 1:
            self.cli.note(", ".join(f"{count:,} {status}" for status, count in self.counts.most_common()))

    def with_what_is_open(self, error: CqrsError) -> CqrsError:
        """The error, which also names the commands without an outcome, if there are any."""
        missing = self.waiter.outstanding
        if not missing:
            return error
        message = f"{error.message}; {self._lacking(missing)}"
        return _extended(type(error)(message, error.hint), self._again(missing), missing)

    def _total(self) -> int:
        return self.counts.total() + len(self.waiter.outstanding)

    def _lacking(self, missing: Sequence[str]) -> str:
        return f"no outcome within {self.patience:g} s for {len(missing):,} of {counted(self._total(), 'command')}"

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
    """The reason, code and message; a duplicate names the outcome that it repeats first."""
    original = (
        f"first {verdict.original.status} at offset {verdict.original.offset}" if verdict.original else ""
    )
    return "  ".join(text for text in (original, verdict.reason, verdict.code, verdict.message) if text)
