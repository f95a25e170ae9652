"""The rules for deferred commands. They use the outcomes, so that compaction of the deferred topic hides no fault.

An outcome `deferred` opens its command's offset. An outcome with `deferredfrom` needs an open offset, and closes it if
the outcome is final. The latest entries of the deferred topic are exactly the open offsets. An open offset takes about
300 bytes of memory.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import MAX_TIMESTAMP, due_of
from cqrs_cli.core.messages.command import CommandEnvelope, command_or_none
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.proof.deferred_log import Entry
from cqrs_cli.proof.documents import deferred_document, fits_document, requested_id, resubmitted_document
from cqrs_cli.proof.findings import DecidedRange, Findings
from cqrs_cli.proof.join import find_outcome
from cqrs_cli.proof.positions import OpenDeferral, ProvedPlace, read_place
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import Lookup, OutcomeTrace

#: Reasons of checks 1 to 5. A command whose `deferredfrom` was not written by an owner must have one of them.
_EARLY = {reason.name for reason in Reason if reason.check <= 5}


#: Reasons that are allowed for a command that was resubmitted before it was due.
_WAITED = {"NOT_YET", "CANCELLED"}


class DeferralRules:
    """Checks the outcomes in the order of the commands; call `conclude` after the last outcome."""

    def __init__(self, scope: Scope, decided: DecidedRange, outcomes: Lookup, findings: Findings) -> None:
        self.open: dict[ProvedPlace, OpenDeferral] = {}  # the open deferred commands
        self._scope, self._decided, self._outcomes, self._findings = scope, decided, outcomes, findings

    def check(self, offset: int, record: Record | None, outcome: OutcomeTrace) -> None:
        """Check the outcome of the command at an offset."""
        envelope = command_or_none(record)
        if outcome.target is not None or outcome.type in ("cqrs.Cancel.unchanged", "cqrs.Release.unchanged"):
            self._check_target(envelope, outcome)
        if outcome.deferredfrom is not None:
            self._check_again(record, envelope, outcome, outcome.deferredfrom)
            return
        if outcome.status == "deferred" and outcome.reason != "MOVED":
            self._check_due(outcome, 0 if outcome.reason == "NOT_YET" else 1)
            self.open[offset] = OpenDeferral(
                outcome.due, outcome.attempt or 0, deferred_document(record, self._scope.masked)
            )
        claims = envelope is not None and envelope.deferredfrom is not None
        if claims and outcome.status != "duplicate" and outcome.reason not in _EARLY:
            self._add(outcome, f"is {outcome.result}, and no owner has said its command again")

    def _check_due(self, outcome: OutcomeTrace, attempt: int) -> None:
        if outcome.attempt is not None and outcome.attempt != attempt:
            self._add(outcome, f"is {outcome.result} at attempt {outcome.attempt} instead of {attempt}")
        if outcome.due is not None and not (outcome.timestamp < outcome.due or outcome.due == MAX_TIMESTAMP):
            self._add(outcome, f"is deferred until {rfc3339(outcome.due)}, which had come")

    def _check_target(self, envelope: CommandEnvelope | None, outcome: OutcomeTrace) -> None:
        if outcome.target is None:
            self._add(outcome, "does not name the deferred command that it is about")
            return
        target, named = outcome.target
        if outcome.status != "unchanged":
            self._add(outcome, f"is {outcome.result}, and has a target")
        elif target in self.open:
            self._check_named(target, named, envelope, outcome)
            cancelled = self.open[target].cancelled or outcome.type.startswith("cqrs.Cancel.")
            self.open[target] = replace(self.open[target], cancelled=cancelled, released=True)
        elif not self._is_forgotten(target):
            self._add(outcome, f"is about command {target}, which is not deferred")

    def _check_named(
        self, target: ProvedPlace, named: str, envelope: CommandEnvelope | None, outcome: OutcomeTrace
    ) -> None:
        about = find_outcome(self._outcomes, target)
        if about is not None and (about.subject, about.cause) != (outcome.subject, named):
            self._add(outcome, f"is about {named!r}, and command {target} has another subject or id")
        if named == outcome.cause:
            self._add(outcome, f"is about {named!r}, which is its own command")
        wanted = None if envelope is None else requested_id(envelope)
        if wanted is not None and wanted != named:
            self._add(outcome, f"is about {named!r}, its command about {wanted!r}")

    def _check_again(
        self, record: Record | None, envelope: CommandEnvelope | None, outcome: OutcomeTrace, place: str
    ) -> None:
        if outcome.status == "duplicate" or outcome.reason == "NOT_RELEASED":
            self._add(outcome, f"is {outcome.result}, and says that it is of a deferred command")
            return
        if envelope is not None and envelope.deferredfrom != place:
            self._add(outcome, f"says deferredfrom {place!r}, its command {envelope.deferredfrom!r}")
        if (opened := self._opened(place)) is None:
            if self._scope.loss is None:
                self._add(outcome, f"says deferredfrom {place!r}, which is not of this partition")
            return  # after a loss: of a deleted commands topic
        if opened not in self.open:
            if not self._is_forgotten(opened):
                self._add(outcome, f"is of command {opened}, which is not deferred any more, or never was")
            return
        self._compare(outcome, opened)
        if record is not None:
            for what in self._problems(record, envelope, opened, place):
                self._add(outcome, what)
        if outcome.status != "deferred":
            del self.open[opened]

    def _opened(self, text: str) -> ProvedPlace | None:
        """Return the position in a `deferredfrom`; None for another partition that is not a parent."""
        partition, offset = read_place(text) or (-1, 0)
        if partition == self._scope.partition:
            return offset
        return text if partition in self._decided.parents else None

    def _compare(self, outcome: OutcomeTrace, opened: ProvedPlace) -> None:
        first, one = find_outcome(self._outcomes, opened), self.open[opened]
        if one.cancelled and outcome.reason != "CANCELLED" and outcome.status != "failed":
            self._add(outcome, f"is {outcome.result}, though command {opened} was cancelled")
        self._check_early(outcome, opened, one)
        if outcome.reason == "CANCELLED" and not one.cancelled:
            self._add(outcome, f"is CANCELLED, though nobody has cancelled command {opened}")
        if outcome.reason == "GAVE_UP" and outcome.attempt not in (None, one.attempt):
            self._add(
                outcome, f"gave up after {outcome.attempt} attempts, command {opened} had {one.attempt}"
            )
        if outcome.reason == "NOT_YET":
            self._check_due(outcome, one.attempt)
            if one.released or outcome.due not in (None, one.due):
                self._add(outcome, f"is NOT_YET, and command {opened} is due at another time")
        elif outcome.status == "deferred":
            self._check_due(outcome, one.attempt + 1)
            self.open[opened] = replace(one, due=outcome.due, attempt=outcome.attempt or 0, released=False)
        if first is None or outcome.cause is None:
            return
        if (first.subject, first.cause) != (outcome.subject, outcome.cause):
            self._add(outcome, f"is of command {opened}, which has another subject or id")
        elif first.fingerprint != outcome.fingerprint:
            self._add(outcome, f"does not have the fingerprint of command {opened}")
        elif first.correlation != outcome.correlation:
            self._add(outcome, f"does not have the correlationid of command {opened}")

    def _check_early(self, outcome: OutcomeTrace, opened: ProvedPlace, one: OpenDeferral) -> None:
        """Check that a command was not decided before it was due, by the timestamp of the resubmitted record."""
        if one.due is None or one.released or one.cancelled or self._scope.loss is not None:
            return
        early = one.due - outcome.timestamp
        unread = outcome.fingerprint is None  # failed by an operator
        if early > self._scope.early and outcome.reason not in _WAITED and not unread:
            self._add(outcome, f"is {outcome.result}, {early // 1000} s before command {opened} was due")

    def _problems(
        self, record: Record, envelope: CommandEnvelope | None, opened: ProvedPlace, place: str
    ) -> Iterator[str]:
        """Yield why a record is not an owner's resubmission of the command at `opened`.

        If that command's record was deleted, its outcome is compared.
        """
        document, known = resubmitted_document(record, place, self._scope.masked), self.open[opened].document
        first = find_outcome(self._outcomes, opened)
        if document is None or envelope is None:
            yield f"is of a record that does not say command {opened} again as an owner does"
        elif known is not None:
            if document != known:
                yield f"is of a record that says another command than {opened} again"
        elif first is not None and first.fingerprint is not None:
            moment = envelope.notbefore
            if not fits_document(envelope, first.fingerprint, self._scope.fits):
                yield f"is of a record that says another command than {opened} again: its fingerprint is another"
            elif first.reason == "NOT_YET" and (moment is None or due_of(moment) != first.due):
                yield f"is of a record that says command {opened} again with another notbefore"

    def _is_forgotten(self, command: ProvedPlace) -> bool:
        """True if a command is unknown: its outcome was deleted, or it was before an accepted loss."""
        loss = self._scope.loss
        lost = loss is not None and isinstance(command, int) and command < loss.at
        return lost or self._decided.is_deleted(command)

    def conclude(self, entries: Mapping[ProvedPlace, Entry], commands: Iterable[Record]) -> None:
        """Compare the open commands with the latest entries of the deferred topic.

        Call it only if no owner was deciding during the reads. `commands`: the commands that are not decided yet.
        """
        for offset, one in self.open.items():
            entry = entries.get(offset)
            if entry is not None:
                for what in self._contradictions(offset, one, entry):
                    self._findings.add("deferred", entry.at, what)
            elif self._is_forgotten(offset):
                continue
            elif isinstance(offset, int):
                self._findings.add("commands", offset, "is deferred, and the deferred topic does not have it")
            else:
                what = f"is where command {offset} should wait, which is deferred"
                self._findings.add("deferred", self._scope.starts.get("deferred", 0), what)
        for offset, entry in entries.items():
            if offset not in self.open and not self._is_forgotten(offset):
                self._findings.add("deferred", entry.at, f"is of command {offset}, which is not deferred")
        self._check_said(entries, commands)

    def _contradictions(self, offset: ProvedPlace, one: OpenDeferral, entry: Entry) -> Iterator[str]:
        """Yield the contradictions between the latest entry of a command and its outcomes."""
        if entry.cancelled != one.cancelled:
            yield f"says that command {offset} is{'' if entry.cancelled else ' not'} cancelled"
        if entry.attempt != one.attempt:
            yield f"is attempt {entry.attempt} of command {offset}, its outcome says {one.attempt}"
        dues: set[int | None] = {0} if one.released else {one.due}
        if one.released and entry.said is not None:  # it may have been resubmitted before the release
            dues.add(one.due)
        if self._scope.loss is not None:  # after a loss, owners resubmit lost commands at once
            dues.add(0)
        if one.due is not None and entry.due not in dues:
            yield f"says that command {offset} is due at {rfc3339(entry.due)}, and its outcomes say otherwise"
        if one.document is not None and entry.document != one.document:
            yield f"holds another command than {offset}"

    def _check_said(self, entries: Mapping[ProvedPlace, Entry], commands: Iterable[Record]) -> None:
        said = {entry.said: offset for offset, entry in entries.items() if entry.said is not None}
        for record in commands if said else ():
            offset = said.get(record.offset)
            place = offset if isinstance(offset, str) else f"{self._scope.partition}/{offset}"
            envelope = None if offset is None else command_or_none(record)
            if offset is not None and envelope is not None and envelope.deferredfrom == place:
                if resubmitted_document(record, place, self._scope.masked) != entries[offset].document:
                    what = f"says another command than {offset} again, from which it is deferred"
                    self._findings.add("commands", record.offset, what)
                del said[record.offset]
        for at, offset in said.items():
            if not self._is_forgotten(offset) and self._scope.loss is None:
                what = f"says that command {offset} stands again at {at}: there it waits for nobody"
                self._findings.add("deferred", entries[offset].at, what)

    def _add(self, outcome: OutcomeTrace, what: str) -> None:
        self._findings.add("outcomes", outcome.at, what)
