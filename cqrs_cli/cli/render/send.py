"""The output of `cqrs send`: sent commands and their outcomes, as JSON and as text."""

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

#: The advice if there is no owner. It names no aggregates, because a new run of only some aggregates would end a run of
#: all aggregates.
_START_HINT = "unless a run is starting, start one"


def sent_result(sent_command: SentCommand) -> Result:
    """Return the result for one sent command."""
    command, partition, offset = sent_command
    document = {
        "id": command.id,
        "aggregate": command.aggregate,
        "subject": command.subject,
        "type": command.type,
        "partition": partition,
        "offset": offset,
    }
    location = f"({format_position(partition, offset)}), id {command.id}"
    return Result(document, f"sent {command.type} to {command.subject} {location}")


def bulk_sent_result(sent_commands: SentCommands, **more: int) -> Result:
    """Return the result for many sent commands."""
    document = {
        "sent": sent_commands.total,
        "seconds": sent_commands.seconds,
        "aggregates": sent_commands.aggregates,
        **more,
    }
    return Result(document, f"sent {counted(sent_commands.total, 'command')} in {sent_commands.seconds} s")


class OutcomePrinter:
    """Prints outcomes and counts them by status.

    `timeout`: seconds to wait for an outcome. `flag`: the text before an id in the hint to send again, such as `--id `.
    """

    def __init__(self, cli: Cli, waiter: OutcomeWaiter, timeout: float, flag: str = "") -> None:
        self.cli = cli
        self.waiter = waiter
        self.timeout = timeout
        self.flag = flag
        self.counts: Counter[str] = Counter()
        self.failures: list[OutcomeEnvelope] = []
        self.ownerless_aggregates: list[str] = []

    def print(self, outcomes: Iterable[ReceivedOutcome]) -> None:
        """Print a line for each outcome."""
        for outcome in outcomes:
            self.cli.print_result(msgspec.Raw(outcome.value), outcome_line(outcome.envelope))
            self.counts[outcome.envelope.data.status] += 1
            if is_failure(outcome.envelope):
                self.failures.append(outcome.envelope)
        self.cli.flush()

    def report_ownerless(self, connection: Connection) -> None:
        """Print a message about each aggregate whose commands wait in partitions without an owner."""
        from cqrs_cli.cli.ownerless_partitions import ownerless_partitions

        partitions_by_name: dict[str, set[int]] = {}
        prefix = self.cli.settings.topic_prefix
        for topic, partition in self.waiter.partitions:
            name = topic.removeprefix(prefix).removesuffix(".outcomes")
            partitions_by_name.setdefault(name, set()).add(partition)
        for name, partitions in sorted(partitions_by_name.items()):
            ownerless, silent_runs = ownerless_partitions(
                connection, self.cli.topics(name), sorted(partitions)
            )
            start_hint = self.cli.with_flags(f"{_START_HINT}: cqrs run")
            if ownerless or silent_runs:
                self.ownerless_aggregates.append(name)
            if ownerless:
                partitions_text = f"partition{'s' * (len(ownerless) > 1)} {', '.join(map(str, ownerless))}"
                self.cli.print_note(f"no run owns {name}, {partitions_text}; {start_hint}; still waiting")
            for run, seconds in silent_runs.items():
                self.cli.print_note(
                    f"run {run}, which owns {name}, is silent for {seconds:,.0f} s; {start_hint}; still waiting"
                )

    @contextmanager
    def report_outstanding(self) -> Iterator[None]:
        """Report the commands that may still be decided, if the wait is interrupted or the broker is lost."""
        try:
            yield
        except KeyboardInterrupt:
            if ids := self.waiter.outstanding:
                self.cli.print_note(
                    f"stopped waiting for {counted(len(ids), 'outcome')}; {self._resend_hint(ids)}"
                )
            raise
        except UnavailableError as error:
            if ids := self.waiter.outstanding:
                raise _with_ids(error, self._resend_hint(ids), ids) from error
            raise

    def raise_for_outcomes(self) -> None:
        """Raise `RefusedError` if a command was rejected or failed, else `NoOutcomeError` if an outcome is missing."""
        missing_ids = self.waiter.outstanding
        total = self._total()
        if self.failures:
            raise self.with_outstanding(rejection_error(self.failures, total))
        if missing_ids:
            start_hint = (
                f"{_START_HINT}: cqrs run" if self.ownerless_aggregates else "check that cqrs run is active"
            )
            hint = f"it may still be decided: {start_hint}; {self._resend_hint(missing_ids)}"
            raise NoOutcomeError(self._missing_text(missing_ids), hint, _ids_document(missing_ids))
        if total > 1:
            self.cli.print_note(
                ", ".join(f"{count:,} {status}" for status, count in self.counts.most_common())
            )

    def with_outstanding(self, error: CqrsError) -> CqrsError:
        """Return the error, extended by the ids of the commands without an outcome."""
        missing_ids = self.waiter.outstanding
        if not missing_ids:
            return error
        message = f"{error.message}; {self._missing_text(missing_ids)}"
        return _with_ids(
            type(error)(message, error.hint, error.more), self._resend_hint(missing_ids), missing_ids
        )

    def _total(self) -> int:
        return self.counts.total() + len(self.waiter.outstanding)

    def _missing_text(self, missing_ids: Sequence[str]) -> str:
        return f"no outcome within {self.timeout:g} s for {len(missing_ids):,} of {counted(self._total(), 'command')}"

    def _resend_hint(self, ids: Sequence[str]) -> str:
        ids_text = ", ".join(f"{self.flag}{id}" for id in ids[:IDS_IN_TEXT])
        more_text = (
            f" and {len(ids) - IDS_IN_TEXT:,} more (-o json lists all)" if len(ids) > IDS_IN_TEXT else ""
        )
        return f"sending again with the same id{'s' * (len(ids) > 1)} is safe: {ids_text}{more_text}"


def _with_ids(error: CqrsError, hint: str, ids: Sequence[str]) -> CqrsError:
    hints = "; ".join(text for text in (error.hint, hint) if text)
    return type(error)(error.message, hints, {**error.more, **_ids_document(ids)})


def _ids_document(ids: Sequence[str]) -> dict[str, object]:
    return {"without_outcome": list(ids)}


def rejection_error(failures: Sequence[OutcomeEnvelope], total: int) -> RefusedError:
    """Return the error for rejected and failed commands among `total` commands, whose outcomes are printed already.

    The hint is the advice for a single command, or the id of the first failed command.
    """
    first_failure = failures[0]
    details = {"refused": len(failures), "first": first_failure.causationid}
    if total == 1:
        return RefusedError("the command was not accepted", _advice(first_failure), details)
    first_text = (
        f"the first: id {first_failure.causationid}" if first_failure.causationid else "the first has no id"
    )
    return RefusedError(f"{len(failures):,} of {counted(total, 'command')} not accepted", first_text, details)


def _advice(outcome: OutcomeEnvelope) -> str:
    """Return the advice for the sender of a single command."""
    verdict = outcome.data
    aggregate, subject = outcome.type.partition(".")[0], shlex.quote(outcome.subject or "")
    if verdict.reason == Reason.HANDLER_ERROR.name:
        return f"correct and deploy the aggregate's code, then repeat the command: cqrs dead-letters retry {aggregate}"
    if verdict.status == "failed":
        return "correct it, and send it again"
    if verdict.reason == Reason.ID_REUSED.name:
        return "give this command an --id of its own"
    if verdict.reason == Reason.EXPIRED.name:
        return "give it more time with --expires"
    return f"see its state: cqrs show {aggregate} {subject}"


def outcome_line(outcome: OutcomeEnvelope) -> str:
    """Return an outcome as one line of text: the status, the aggregate and the reason."""
    verdict = outcome.data
    command_type = outcome.type.rpartition(".")[0]
    if "." not in command_type:  # the command was unreadable, or its type is unknown
        command_type = "?"
    subject = outcome.subject or "?"
    line = f"{verdict.status:<9}  {subject}  {command_type}  version {verdict.version}  {_reason(verdict)}"
    return printable(line.rstrip())


def _reason(verdict: Verdict) -> str:
    """Return the reason, code and message; for a duplicate, first the outcome that it repeats."""
    original_text = (
        f"first {verdict.original.status} at offset {verdict.original.offset}" if verdict.original else ""
    )
    due_text = f"due {verdict.due}" if verdict.due else ""
    texts = (original_text, due_text, verdict.reason, verdict.code, verdict.message)
    return "  ".join(text for text in texts if text)
