"""The rules for data keys and erasures: the keys that events may use, and the outcomes of commands with keys."""

from collections.abc import Iterator

import msgspec

from cqrs_cli.codec.ciphertext import EventKey, has_encrypted_members, kids_of_data
from cqrs_cli.core.erasure import ERASE, Erase
from cqrs_cli.core.messages.command import CommandEnvelope, command_or_none
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.index_entries import EventsEntry, OutcomeEntry
from cqrs_cli.proof.keys import KeyEntry, encode_key_entry, read_key_entry
from cqrs_cli.proof.scope import Scope

#: The prefix of the erase command's outcome types.
_ERASE_PREFIX = f"{ERASE}."

read_erase = msgspec.json.Decoder(Erase).decode

#: The reason of a deferred command whose data key was deleted before the command was resubmitted.
_ERASED = Reason.ERASED.name

#: Reasons of checks 1 to 7. Check 7 decrypts and reads the data.
_REASONS_BEFORE_DECRYPTION = {reason.name for reason in Reason if reason.check <= 7}


class KeyRules:
    """Checks the commands in order. `Versions` must have stored the version of a command before."""

    def __init__(self, scope: Scope, dedup: DedupIndex, findings: Findings, events_complete: bool) -> None:
        """`events_complete`: no event was deleted before a verification read it."""
        self._scope, self._dedup, self._findings = scope, dedup, findings
        self._has_all_events = events_complete and scope.loss is None

    def check_keys(
        self, record: Record | None, outcome: OutcomeEntry | None, events: EventsEntry | None
    ) -> None:
        """Check the data keys in a command, its outcome and its events."""
        subject = None if outcome is None else outcome.subject
        if outcome is not None and subject is not None:
            key_entry = self._key_entry(subject)
            for problem in self._outcome_problems(record, outcome, events, key_entry):
                self._findings.add_violation("outcomes", outcome.offset, problem)
        if events is not None and events.kid is not None:
            self._apply_events(events, EventKey(events.kid, events.is_erasure))

    def _key_entry(self, subject: str) -> KeyEntry:
        stored_state = self._dedup.find_state(subject)
        return KeyEntry() if stored_state is None else read_key_entry(stored_state.state)

    def _apply_events(self, events: EventsEntry, key: EventKey) -> None:
        before = self._key_entry(events.subject)
        after = _key_entry_after(
            before, key, 0 if self._scope.for_child else events.offset, events.last_version
        )
        if (problem := _key_problem(before, key, events.subject)) is not None and (
            self._has_all_events or key.kid in before.erased_kids
        ):
            self._findings.add_violation("events", events.offset, problem)
        self._dedup.set_key_entry(events.subject, encode_key_entry(after))

    def _outcome_problems(
        self, record: Record | None, outcome: OutcomeEntry, events: EventsEntry | None, key_entry: KeyEntry
    ) -> Iterator[str]:
        erases = outcome.type.startswith(_ERASE_PREFIX)
        if events is not None and (events.is_erasure != erases or (erases and events.count != 1)):
            yield (
                f"is {outcome.type}, but its command has"
                f" {'the deletion of a key' if events.is_erasure else 'other events'}"
            )
        envelope = command_or_none(record)
        if erases and envelope is not None:
            yield from _erase_problems(outcome, events, key_entry, envelope)
        if outcome.reason == _ERASED and outcome.deferredfrom is None:
            yield "is ERASED, but its command was never deferred"
        if envelope is None:
            if outcome.reason == _ERASED and self._has_all_events and not key_entry.erased_kids:
                yield f"is ERASED, but no key of {outcome.subject!r} was deleted"
        elif outcome.deferredfrom is None:
            if _was_decrypted(outcome) and has_encrypted_members(bytes(envelope.data)):
                yield f"is {outcome.result}, but its sender has encrypted its command"
        elif self._has_all_events:
            yield from _resubmission_problems(outcome, envelope, key_entry)


def _erase_problems(
    outcome: OutcomeEntry, events: EventsEntry | None, key_entry: KeyEntry, envelope: CommandEnvelope
) -> Iterator[str]:
    """Yield the violations in the outcome of an `Erase` command, which may name the key to delete."""
    try:
        named_kid = read_erase(bytes(envelope.data)).key
    except ValueError:  # a payload, or data that the owner has rejected
        return
    if outcome.status == "unchanged" and key_entry.kid is not None and named_kid in (None, key_entry.kid):
        yield f"is unchanged, but key {key_entry.kid} of {outcome.subject!r} is active"
    if events is not None and events.is_erasure and named_kid not in (None, events.kid):
        yield f"is {outcome.result}, but its command names key {named_kid}, not key {events.kid}"


def _resubmission_problems(
    outcome: OutcomeEntry, envelope: CommandEnvelope, key_entry: KeyEntry
) -> Iterator[str]:
    """Yield the violations in the outcome of a resubmitted command, by the data keys that encrypt the command.

    The keys that encrypt a payload are unknown, because payloads are not downloaded.
    """
    is_erased = outcome.reason == _ERASED
    if envelope.datasha256 is not None:
        if is_erased and not key_entry.erased_kids:
            yield f"is ERASED, but no key of {outcome.subject!r} was deleted"
        return
    try:
        kids = kids_of_data(bytes(envelope.data))
    except ValueError:
        yield "is of a record with a value that is not encrypted as an owner does"
        return
    if is_erased and not kids & {*key_entry.erased_kids}:
        yield f"is ERASED, but the key of its command was not deleted: {', '.join(sorted(kids)) or 'it has none'}"
    elif kids & {*key_entry.erased_kids} and _was_decrypted(outcome):
        yield f"is {outcome.result}, but the key of its command was deleted: it must be ERASED"
    if key_entry.kid is not None and (other_kids := kids - {key_entry.kid, *key_entry.erased_kids}):
        yield f"is of a command that is encrypted with key {other_kids.pop()}, but key {key_entry.kid} is active"


def _was_decrypted(outcome: OutcomeEntry) -> bool:
    """True if the outcome implies that the owner decrypted the command's data. The owner does not decrypt a command
    that was resubmitted before it was due.
    """
    if outcome.status == "duplicate" or outcome.fingerprint is None:
        return False
    too_early = outcome.reason == "NOT_YET" and outcome.deferredfrom is not None
    return not too_early and outcome.reason not in _REASONS_BEFORE_DECRYPTION


def _key_entry_after(before: KeyEntry, key: EventKey, offset: int, version: int) -> KeyEntry:
    """Return the key entry after an event that uses or deletes a key. `version`: the version after the event."""
    if key.is_erasure:
        erased_kids = before.erased_kids if key.kid in before.erased_kids else (*before.erased_kids, key.kid)
        return KeyEntry(None if before.kid in (None, key.kid) else before.kid, erased_kids, offset, version)
    return KeyEntry(
        before.kid if key.kid in before.erased_kids else key.kid,
        before.erased_kids,
        offset,
        before.erased_version,
    )


def _key_problem(before: KeyEntry, key: EventKey, subject: str) -> str | None:
    """Return the violation of an event that uses or deletes a key; None if the event is correct."""
    if key.kid in before.erased_kids:
        predicate = "deletes" if key.is_erasure else "is encrypted with"
        return f"{predicate} key {key.kid} of {subject!r}, which was deleted before"
    if before.kid not in (None, key.kid):
        predicate = "deletes" if key.is_erasure else "is encrypted with"
        return f"{predicate} key {key.kid} of {subject!r}, but key {before.kid} is active: no event has deleted it"
    return None
