"""Checks the records of the deferred topic in the order of the log: each record alone, against the command's previous
record, and against the outcomes.

The topic is compacted, so any record except the last of a command may be missing. An open entry takes about 200 bytes
of memory.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cqrs_cli.core.deferral.entry import Deferral, read_deferral, read_deferral_key
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.proof.documents import MaskDocument, digest_of, fits_document
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.fingerprints import FitsCommand
from cqrs_cli.proof.join import find_outcome
from cqrs_cli.proof.keys import kids_of_document
from cqrs_cli.proof.positions import ProvedPlace, proved_place
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import Lookup, OutcomeTrace


class Entry(NamedTuple):
    """The latest record of a deferred command. `at`: its offset; `said`: the offset of the resubmitted command."""

    at: int
    said: int | None
    cancelled: bool
    due: int = 0
    attempt: int = 0
    document: bytes = b""  # a digest of the command
    fixed: bytes = b""  # a digest of the members that never change
    sealed: tuple[str, str] | None = None  # subject and key id, if the command is encrypted


class DeferredLog:
    """The latest entries of a partition's deferred topic, by command.

    `judged_to`: an earlier verification has checked the records before this offset. `judged`: the first record whose
    outcome was not readable yet, from which the next verification checks; None if there is no such record.
    """

    def __init__(
        self, scope: Scope, outcomes: Lookup, findings: Findings, passing: Findings, judged_to: int = 0
    ) -> None:
        """`passing`: receives violations that each verification finds again, until the record is deleted."""
        self.entries: dict[ProvedPlace, Entry] = {}
        self.judged: int | None = None
        self._scope, self._outcomes, self._judged_to = scope, outcomes, judged_to
        self._findings, self._passing = findings, passing

    def read(self, records: Iterable[Record]) -> None:
        """Check the next records."""
        for record in records:
            try:
                topic, offset, partition = read_deferral_key(record.key)
                entry = None if record.value is None else read_deferral(record.key, record.value)
            except ValueError as error:
                self._passing.add("deferred", record.offset, f"is not a deferred command: {error}")
                continue
            place = proved_place(offset, partition)
            self._check_split(record.offset, place, entry)
            if topic != self._scope.topic_id:
                if entry is not None and self._scope.loss is None:
                    self._passing.add("deferred", record.offset, "is of another commands topic")
            elif entry is None:
                self.entries.pop(place, None)
            else:
                before = self.entries.get(place)
                self.entries[place] = now = _entry(record.offset, entry, self._scope.masked)
                if record.offset >= self._judged_to:
                    self._judge(place, entry, before, now)

    def _check_split(self, at: int, place: ProvedPlace, entry: Deferral | None) -> None:
        """Check a record against the splits, because child partitions import the entries before a split's offset.

        After that offset, no entry may be of a key that the split handed over. Before it, no entry may be of a command
        after the split.
        """
        homes = self._scope.homes
        if homes is None:
            return
        first = find_outcome(self._outcomes, place) if entry is None else None
        subject = entry.subject if entry is not None else None if first is None else first.subject
        if subject is not None and (split := homes.gave_away(subject.encode(), at)) is not None:
            what = f"is of {subject!r}, which was given away at {split.deferred}, by the split at command"
            self._passing.add("deferred", at, f"{what} {split.commands}")
        if isinstance(place, int) and (split := homes.precedes(place, at)) is not None:
            what = f"is of command {place}, and the split at command {split.commands} is at {split.deferred}"
            self._passing.add("deferred", at, what)

    def _judge(self, place: ProvedPlace, entry: Deferral, before: Entry | None, now: Entry) -> None:
        loss = self._scope.loss
        if loss is not None and isinstance(place, int) and place < loss.at:
            return
        first = find_outcome(self._outcomes, place)
        if first is None or first.status != "deferred" or first.reason == "MOVED":
            if self.judged is None:
                self.judged = now.at
            return
        problems = [*_problems(entry, self._scope.fits), *_against(first, place, entry)]
        if before is not None:
            problems += self._after(before, now)
        for what in problems:
            self._findings.add("deferred", now.at, what)

    def _after(self, before: Entry, now: Entry) -> Iterator[str]:
        """Yield the contradictions to the command's previous record."""
        if now.fixed != before.fixed:
            yield f"is another command than that of the record at offset {before.at}"
        if now.attempt < before.attempt or (before.cancelled and not now.cancelled):
            yield f"goes back behind the record at offset {before.at}"
        if now.attempt == before.attempt and now.due not in (0, before.due):
            yield f"is due at {rfc3339(now.due)}, the record at offset {before.at} says {rfc3339(before.due)}"
        if before.said is None or now.said is not None or now.attempt != before.attempt + 1:
            return
        put_off = find_outcome(self._outcomes, before.said)
        if put_off is not None and put_off.attempt == now.attempt and now.due not in (0, put_off.due):
            yield _otherwise_due(now.due, put_off, before.said)


def _entry(at: int, entry: Deferral, masked: MaskDocument) -> Entry:
    said = None if entry.resubmitted_topic != entry.topic else entry.resubmitted_offset
    names = f"{entry.subject}\0{entry.id}\0{entry.fingerprint}\0{entry.version}\0{entry.timestamp}\0"
    return Entry(
        at,
        said,
        entry.cancelled,
        entry.due,
        entry.attempt,
        digest_of(masked(entry.command)),
        digest_of(names.encode() + entry.command),
        _sealed(entry),
    )


def _sealed(entry: Deferral) -> tuple[str, str] | None:
    kids = kids_of_document(entry.command)
    return (entry.subject, min(kids)) if kids else None


def _problems(entry: Deferral, fits: FitsCommand) -> Iterator[str]:
    """Yield the contradictions within an entry."""
    if (entry.resubmitted_offset is None) != (not entry.resubmitted_topic):
        yield "has only one of the offset and the topic of its resubmitted command"
    if entry.reason != (Reason.LATER if entry.attempt else Reason.NOT_YET).name:
        yield f"is {entry.reason} at attempt {entry.attempt}"
    subject = entry.subject.encode()
    try:
        envelope = read_command(Record(0, 0, subject, entry.command, [*HEADERS]))
    except CheckFailed as refused:
        yield f"holds no command: {refused.message}"
        return
    if (envelope.subject, envelope.id) != (entry.subject, entry.id):
        yield f"is of {entry.id!r} of {entry.subject!r}, its command is {envelope.id!r} of {envelope.subject!r}"
    if envelope.deferredfrom is not None:
        yield "holds a command with a deferredfrom"
    if len(kids := kids_of_document(entry.command)) > 1:
        yield f"holds a command that is sealed with the keys {' and '.join(sorted(kids))}"
    if not fits_document(envelope, entry.fingerprint, fits):
        yield "does not have the fingerprint of its command"


def _against(first: OutcomeTrace, place: ProvedPlace, entry: Deferral) -> Iterator[str]:
    """Yield the contradictions to the outcome that deferred the command."""
    found = (entry.subject, entry.id, entry.fingerprint, entry.version, entry.timestamp)
    wanted = (first.subject, first.cause, first.fingerprint, first.version, first.timestamp)
    names = ("subject", "id", "fingerprint", "version", "timestamp")
    for name, mine, theirs in zip(names, found, wanted, strict=True):
        if mine != theirs:
            yield f"has the {name} {mine!r}, the outcome of command {place} {theirs!r}"
    if entry.attempt < (first.attempt or 0):
        yield f"is attempt {entry.attempt}, the outcome of command {place} says {first.attempt}"
    elif entry.attempt == first.attempt:
        if entry.due not in (0, first.due):
            yield _otherwise_due(entry.due, first, place)
        if entry.reason != first.reason:
            yield f"is {entry.reason}, the outcome of command {place} {first.reason}"


def _otherwise_due(due: int, outcome: OutcomeTrace, command: ProvedPlace) -> str:
    said = "no time" if outcome.due is None else rfc3339(outcome.due)
    return f"is due at {rfc3339(due)}, the outcome of command {command} says {said}"
