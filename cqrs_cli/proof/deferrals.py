"""The rules for deferred commands. They go by the outcomes, so that compaction of the deferred topic hides nothing.

An outcome `deferred` opens its command's offset; one with `deferredfrom` needs that offset open, and a final one closes
it. The latest entries of the deferred topic are exactly those that are open. About 100 bytes for each open one.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cqrs_cli.core.deferral.entry import read_deferral, read_deferral_key
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.reasons import Reason, Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import DecidedRange, Findings
from cqrs_cli.proof.join import find_outcome
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import Index, OutcomeTrace

#: Reasons of the checks 1 to 5: a command with a `deferredfrom` that nobody gave it ends with one of them.
_EARLY = {reason.name for reason in Reason if reason.check <= 5}


class Entry(NamedTuple):
    """The latest record of an entry: `said` is the offset at which its command stands again."""

    at: int
    said: int | None
    cancelled: bool


class DeferredLog:
    """The deferred topic of a partition, read in the order of the log: what its records leave, by command."""

    def __init__(self, scope: Scope, findings: Findings) -> None:
        self.entries: dict[int, Entry] = {}
        self._scope, self._findings = scope, findings

    def read(self, records: Iterable[Record]) -> None:
        """Read the next records."""
        for record in records:
            try:
                topic, offset = read_deferral_key(record.key)
                entry = None if record.value is None else read_deferral(record.key, record.value)
            except ValueError as error:
                self._findings.add("deferred", record.offset, f"is not a deferred command: {error}")
                continue
            if topic != self._scope.topic_id:
                if entry is not None and self._scope.loss is None:
                    self._findings.add("deferred", record.offset, "is of another commands topic")
            elif entry is None:
                self.entries.pop(offset, None)
            else:
                said = None if entry.said_topic != topic else entry.said
                self.entries[offset] = Entry(record.offset, said, entry.cancelled)


class DeferralRules:
    """Checks outcome after outcome, in the order of the commands; `conclude` when there are no more."""

    def __init__(self, scope: Scope, decided: DecidedRange, outcomes: Index, findings: Findings) -> None:
        self.open: dict[int, bool] = {}  # the commands that are deferred; true: cancelled
        self._scope, self._decided, self._outcomes, self._findings = scope, decided, outcomes, findings
        self._own = f"{scope.partition}/"

    def check(self, offset: int, record: Record | None, outcome: OutcomeTrace) -> None:
        """Check the outcome of the command at an offset."""
        envelope = _envelope(record)
        if outcome.target is not None:
            self._check_target(outcome, outcome.target)
        if outcome.deferredfrom is not None:
            self._check_again(envelope, outcome, outcome.deferredfrom)
            return
        if outcome.status == "deferred":
            self.open[offset] = False
        claims = envelope is not None and envelope.deferredfrom is not None
        if claims and outcome.status != "duplicate" and outcome.reason not in _EARLY:
            self._add(outcome, f"is {outcome.result}, and no owner has said its command again")

    def _check_target(self, outcome: OutcomeTrace, target: int) -> None:
        if outcome.status != "unchanged":
            self._add(outcome, f"is {outcome.result}, and has a target")
        elif target in self.open:
            self.open[target] |= outcome.type.startswith("cqrs.Cancel.")
        elif not self._is_forgotten(target):
            self._add(outcome, f"is about command {target}, which is not deferred")

    def _check_again(self, envelope: CommandEnvelope | None, outcome: OutcomeTrace, place: str) -> None:
        if outcome.status == "duplicate" or outcome.reason == "NOT_RELEASED":
            self._add(outcome, f"is {outcome.result}, and says that it is of a deferred command")
            return
        if envelope is not None and envelope.deferredfrom != place:
            self._add(outcome, f"says deferredfrom {place!r}, its command {envelope.deferredfrom!r}")
        number = place.removeprefix(self._own)
        if not (number.isascii() and number.isdigit()):
            if self._scope.loss is None:
                self._add(outcome, f"says deferredfrom {place!r}, which is not of this partition")
            return  # of a commands topic that is no more
        opened = int(number)
        if opened not in self.open:
            if not self._is_forgotten(opened):
                self._add(outcome, f"is of command {opened}, which is not deferred any more, or never was")
            return
        self._compare(outcome, opened)
        if outcome.status != "deferred":
            del self.open[opened]

    def _compare(self, outcome: OutcomeTrace, opened: int) -> None:
        first, cancelled = find_outcome(self._outcomes, opened), self.open[opened]
        if cancelled and outcome.reason != "CANCELLED" and outcome.status != "failed":
            self._add(outcome, f"is {outcome.result}, though command {opened} was cancelled")
        if outcome.reason == "CANCELLED" and not cancelled:
            self._add(outcome, f"is CANCELLED, though nobody has cancelled command {opened}")
        if first is None or outcome.cause is None:
            return
        if (first.subject, first.cause) != (outcome.subject, outcome.cause):
            self._add(outcome, f"is of command {opened}, which has another subject or id")
        elif first.fingerprint != outcome.fingerprint:
            self._add(outcome, f"does not have the fingerprint of command {opened}")

    def _is_forgotten(self, command: int) -> bool:
        """True if nothing is known of a command: its outcome was deleted, or lies before an accepted loss."""
        loss = self._scope.loss
        return command < self._decided.outcomes or (loss is not None and command < loss.at)

    def conclude(self, entries: Mapping[int, Entry], commands: Iterable[Record]) -> None:
        """Compare what is open with the latest entries. Only where nobody was at work meanwhile.

        `commands` are those that are not decided yet.
        """
        for offset, cancelled in self.open.items():
            entry = entries.get(offset)
            if entry is None and not self._is_forgotten(offset):
                self._findings.add("commands", offset, "is deferred, and the deferred topic does not have it")
            elif entry is not None and entry.cancelled != cancelled:
                what = f"says that command {offset} is{'' if entry.cancelled else ' not'} cancelled"
                self._findings.add("deferred", entry.at, what)
        for offset, entry in entries.items():
            if offset not in self.open and not self._is_forgotten(offset):
                self._findings.add("deferred", entry.at, f"is of command {offset}, which is not deferred")
        self._check_said(entries, commands)

    def _check_said(self, entries: Mapping[int, Entry], commands: Iterable[Record]) -> None:
        said = {entry.said: offset for offset, entry in entries.items() if entry.said is not None}
        for record in commands if said else ():
            offset = said.get(record.offset)
            envelope = None if offset is None else _envelope(record)
            if envelope is not None and envelope.deferredfrom == f"{self._own}{offset}":
                del said[record.offset]
        for at, offset in said.items():
            if not self._is_forgotten(offset) and self._scope.loss is None:
                what = f"says that command {offset} stands again at {at}: there it waits for nobody"
                self._findings.add("deferred", entries[offset].at, what)

    def _add(self, outcome: OutcomeTrace, what: str) -> None:
        self._findings.add("outcomes", outcome.at, what)


def _envelope(record: Record | None) -> CommandEnvelope | None:
    try:
        return None if record is None else read_command(record)
    except Refused:
        return None
