"""Checks the records of the deferred topic in the order of the log: each record alone, against the previous record of
the same command, and against the outcomes.

The topic is compacted, so only the last record of each command is certain to exist. An entry takes about 200 bytes of
memory.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cqrs_cli.codec.ciphertext import kids_of_document
from cqrs_cli.core.deferral.entry import Deferral, read_deferral, read_deferral_key
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.proof.documents import DocumentRedactor, digest_of, fits_document
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.fingerprints import FingerprintCheck
from cqrs_cli.proof.index_entries import Lookup, OutcomeEntry
from cqrs_cli.proof.join import find_outcome
from cqrs_cli.proof.positions import CommandPosition, command_position
from cqrs_cli.proof.scope import Scope


class DeferredEntry(NamedTuple):
    """The latest record of a deferred command."""

    offset: int  # offset of the record in the deferred topic
    resubmitted_offset: int | None  # offset of the resubmitted command in the commands topic
    cancelled: bool
    due: int = 0  # ms since 1970; 0: at once
    attempt: int = 0  # how often `decide` has deferred the command
    document_digest: bytes = b""  # a digest of the command
    fixed_digest: bytes = b""  # a digest of the members that no later record of the command may change
    encrypted_with: tuple[str, str] | None = None  # subject and key id, if the command is encrypted


class DeferredLog:
    """Reads a partition of the deferred topic. `entries` has the latest entry of each command.

    `checked_until`: an earlier verification has checked the records before this offset. `first_unchecked`: the offset
    of the first record whose outcome was not read yet, or None. The next verification checks from this offset on.
    """

    def __init__(
        self,
        scope: Scope,
        outcomes: Lookup,
        findings: Findings,
        unstored_findings: Findings,
        checked_until: int = 0,
    ) -> None:
        """`unstored_findings`: receives violations that each verification finds again, until the record is deleted."""
        self.entries: dict[CommandPosition, DeferredEntry] = {}
        self.first_unchecked: int | None = None
        self._scope, self._outcomes, self._checked_until = scope, outcomes, checked_until
        self._findings, self._unstored_findings = findings, unstored_findings

    def read(self, records: Iterable[Record]) -> None:
        """Check the next records."""
        for record in records:
            try:
                topic_id, offset, partition = read_deferral_key(record.key)
                entry = None if record.value is None else read_deferral(record.key, record.value)
            except ValueError as error:
                self._unstored_findings.add_violation(
                    "deferred", record.offset, f"is not a deferred command: {error}"
                )
                continue
            position = command_position(offset, partition)
            self._check_split(record.offset, position, entry)
            if topic_id != self._scope.topic_id:
                if entry is not None and self._scope.loss is None:
                    self._unstored_findings.add_violation(
                        "deferred", record.offset, "is of another commands topic"
                    )
            elif entry is None:
                self.entries.pop(position, None)
            else:
                previous = self.entries.get(position)
                self.entries[position] = latest = _summarize(
                    record.offset, entry, self._scope.redact_document
                )
                if record.offset >= self._checked_until:
                    self._check_entry(position, entry, previous, latest)

    def _check_split(self, offset: int, position: CommandPosition, entry: Deferral | None) -> None:
        """Check a record against the splits. Each split has an offset in the commands topic and an offset in the
        deferred topic. Child partitions import the entries before the latter.

        In the deferred topic, no entry after the split may have a key that the split handed over, and no entry before
        the split may belong to a command after the split.
        """
        key_history = self._scope.key_history
        if key_history is None:
            return
        outcome = find_outcome(self._outcomes, position) if entry is None else None
        if entry is not None:
            subject: str | None = entry.subject
        else:
            subject = None if outcome is None else outcome.subject
        if (
            subject is not None
            and (split := key_history.split_that_moved(subject.encode(), offset)) is not None
        ):
            problem = (
                f"is of {subject!r}, which moved to a child at {split.deferred}, by the split at command"
            )
            self._unstored_findings.add_violation("deferred", offset, f"{problem} {split.commands}")
        if (
            isinstance(position, int)
            and (split := key_history.split_before_command(position, offset)) is not None
        ):
            problem = (
                f"is of command {position}, but the split at command {split.commands} is at {split.deferred}"
            )
            self._unstored_findings.add_violation("deferred", offset, problem)

    def _check_entry(
        self,
        position: CommandPosition,
        entry: Deferral,
        previous: DeferredEntry | None,
        latest: DeferredEntry,
    ) -> None:
        """Compare an entry with the first outcome of its command, and with the previous record of the command."""
        loss = self._scope.loss
        if loss is not None and isinstance(position, int) and position < loss.restart_command:
            return
        outcome = find_outcome(self._outcomes, position)
        if outcome is None or outcome.status != "deferred" or outcome.reason == "MOVED":
            if self.first_unchecked is None:
                self.first_unchecked = latest.offset
            return
        problems = [
            *_problems(entry, self._scope.fits_command),
            *_compare_with_outcome(outcome, position, entry),
        ]
        if previous is not None:
            problems += self._compare_with_previous(previous, latest)
        for problem in problems:
            self._findings.add_violation("deferred", latest.offset, problem)

    def _compare_with_previous(self, previous: DeferredEntry, latest: DeferredEntry) -> Iterator[str]:
        """Yield the contradictions between the latest record of a command and its previous record."""
        if latest.fixed_digest != previous.fixed_digest:
            yield f"has another command than the record at offset {previous.offset}"
        if latest.attempt < previous.attempt or (previous.cancelled and not latest.cancelled):
            yield f"goes back to a state before the record at offset {previous.offset}"
        if latest.attempt == previous.attempt and latest.due not in (0, previous.due):
            yield (
                f"is due at {rfc3339(latest.due)}, but at {rfc3339(previous.due)} in the record at offset "
                f"{previous.offset}"
            )
        if (
            previous.resubmitted_offset is None
            or latest.resubmitted_offset is not None
            or latest.attempt != previous.attempt + 1
        ):
            return
        deferral_outcome = find_outcome(self._outcomes, previous.resubmitted_offset)
        if (
            deferral_outcome is not None
            and deferral_outcome.attempt == latest.attempt
            and latest.due not in (0, deferral_outcome.due)
        ):
            yield _due_problem(latest.due, deferral_outcome, previous.resubmitted_offset)


def _summarize(offset: int, entry: Deferral, redact: DocumentRedactor) -> DeferredEntry:
    resubmitted_offset = None if entry.resubmitted_topic_id != entry.topic_id else entry.resubmitted_offset
    fixed_members = f"{entry.subject}\0{entry.id}\0{entry.fingerprint}\0{entry.version}\0{entry.timestamp}\0"
    return DeferredEntry(
        offset,
        resubmitted_offset,
        entry.cancelled,
        entry.due,
        entry.attempt,
        digest_of(redact(entry.command)),
        digest_of(fixed_members.encode() + entry.command),
        _encryption_key_of(entry),
    )


def _encryption_key_of(entry: Deferral) -> tuple[str, str] | None:
    kids = kids_of_document(entry.command)
    return (entry.subject, min(kids)) if kids else None


def _problems(entry: Deferral, fits_command: FingerprintCheck) -> Iterator[str]:
    """Yield the contradictions within an entry."""
    if (entry.resubmitted_offset is None) != (not entry.resubmitted_topic_id):
        yield "has only one of the offset and the topic of its resubmitted command"
    elif entry.resubmitted_topic_id not in ("", entry.topic_id):
        yield f"names another commands topic for its resubmitted command, {entry.resubmitted_topic_id!r}"
    if entry.reason != (Reason.LATER if entry.attempt else Reason.NOT_YET).name:
        yield f"is {entry.reason} at attempt {entry.attempt}"
    subject = entry.subject.encode()
    try:
        envelope = read_command(Record(0, 0, subject, entry.command, [*HEADERS]))
    except CheckFailed as failure:
        yield f"holds no command: {failure.message}"
        return
    if (envelope.subject, envelope.id) != (entry.subject, entry.id):
        yield f"is of {entry.id!r} of {entry.subject!r}, its command is {envelope.id!r} of {envelope.subject!r}"
    if envelope.deferredfrom is not None:
        yield "holds a command with a deferredfrom"
    if len(kids := kids_of_document(entry.command)) > 1:
        yield f"holds a command that is encrypted with the keys {' and '.join(sorted(kids))}"
    if not fits_document(envelope, entry.fingerprint, fits_command):
        yield "does not have the fingerprint of its command"


def _compare_with_outcome(outcome: OutcomeEntry, position: CommandPosition, entry: Deferral) -> Iterator[str]:
    """Yield the contradictions between an entry and the outcome that deferred its command."""
    entry_values = (entry.subject, entry.id, entry.fingerprint, entry.version, entry.timestamp)
    outcome_values = (outcome.subject, outcome.cause, outcome.fingerprint, outcome.version, outcome.timestamp)
    names = ("subject", "id", "fingerprint", "version", "timestamp")
    for name, entry_value, outcome_value in zip(names, entry_values, outcome_values, strict=True):
        if entry_value != outcome_value:
            yield f"has the {name} {entry_value!r}, the outcome of command {position} {outcome_value!r}"
    if entry.attempt < (outcome.attempt or 0):
        yield f"is attempt {entry.attempt}, but {outcome.attempt} in the outcome of command {position}"
    elif entry.attempt == outcome.attempt:
        if entry.due not in (0, outcome.due):
            yield _due_problem(entry.due, outcome, position)
        if entry.reason != outcome.reason:
            yield f"is {entry.reason}, the outcome of command {position} {outcome.reason}"


def _due_problem(due: int, outcome: OutcomeEntry, command: CommandPosition) -> str:
    outcome_due = "no time" if outcome.due is None else rfc3339(outcome.due)
    return f"is due at {rfc3339(due)}, but at {outcome_due} in the outcome of command {command}"
