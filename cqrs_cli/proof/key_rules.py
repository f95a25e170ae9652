"""The rules for data keys and erasures: the keys that events may use, and the outcomes of commands with keys."""

from collections.abc import Iterator

import msgspec

from cqrs_cli.core.erasure import ERASE, Erase
from cqrs_cli.core.messages.command import CommandEnvelope, command_or_none
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import has_encrypted_shape, kids_in
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.keys import EventKey, KeyTrace, read_trace, trace_bytes
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import EventsTrace, OutcomeTrace

#: The prefix of the erase command's outcome types.
_ERASE = f"{ERASE}."

read_erase = msgspec.json.Decoder(Erase).decode

#: The reason of a deferred command whose data key was deleted before it was resubmitted.
_GONE = Reason.ERASED.name

#: Reasons of the checks up to check 7, which decrypts and reads the data.
_UNOPENED = {reason.name for reason in Reason if reason.check <= 7}


class KeyRules:
    """Checks the commands in order, after `Versions` has stored the version of each command."""

    def __init__(self, scope: Scope, dedup: DedupIndex, findings: Findings, has_begin: bool) -> None:
        """`has_begin`: the events are complete from the first event on."""
        self._scope, self._dedup, self._findings = scope, dedup, findings
        self._is_whole = has_begin and scope.loss is None

    def check(self, record: Record | None, outcome: OutcomeTrace | None, events: EventsTrace | None) -> None:
        """Check the data keys in a command, its outcome and its events."""
        subject = None if outcome is None else outcome.subject
        if outcome is not None and subject is not None:
            known = self._known(subject)
            for what in self._of_outcome(record, outcome, events, known):
                self._findings.add("outcomes", outcome.at, what)
        if events is not None and events.kid is not None:
            self._note(events, EventKey(events.kid, events.ends))

    def _known(self, subject: str) -> KeyTrace:
        saved = self._dedup.find_state(subject)
        return KeyTrace() if saved is None else read_trace(saved.state)

    def _note(self, events: EventsTrace, key: EventKey) -> None:
        before = self._known(events.subject)
        after = _after(before, key, 0 if self._scope.for_child else events.at, events.last)
        if (what := _contradiction(before, key, events.subject)) is not None and (
            self._is_whole or key.kid in before.ended
        ):
            self._findings.add("events", events.at, what)
        self._dedup.note(events.subject, trace_bytes(after))

    def _of_outcome(
        self, record: Record | None, outcome: OutcomeTrace, events: EventsTrace | None, known: KeyTrace
    ) -> Iterator[str]:
        erases = outcome.type.startswith(_ERASE)
        if events is not None and (events.ends != erases or (erases and events.count != 1)):
            yield f"is {outcome.type}, and its command has {'the end of a key' if events.ends else 'other events'}"
        envelope = command_or_none(record)
        if erases and envelope is not None:
            yield from _of_erase(outcome, events, known, envelope)
        if outcome.reason == _GONE and outcome.deferredfrom is None:
            yield "is ERASED, and its command was never deferred"
        if envelope is None:
            if outcome.reason == _GONE and self._is_whole and not known.ended:
                yield f"is ERASED, and no key of {outcome.subject!r} has ended"
        elif outcome.deferredfrom is None:
            if _is_opened(outcome) and _has_seals(envelope):
                yield f"is {outcome.result}, and its sender has sealed its command"
        elif self._is_whole:
            yield from _of_again(outcome, envelope, known)


def _of_erase(
    outcome: OutcomeTrace, events: EventsTrace | None, known: KeyTrace, envelope: CommandEnvelope
) -> Iterator[str]:
    """Yield the violations in the outcome of an `Erase`, by the key that the command names."""
    try:
        named = read_erase(bytes(envelope.data)).key
    except ValueError:  # a payload, or data that the owner has rejected
        return
    if outcome.status == "unchanged" and known.kid is not None and named in (None, known.kid):
        yield f"is unchanged, and key {known.kid} of {outcome.subject!r} is in force"
    if events is not None and events.ends and named not in (None, events.kid):
        yield f"is {outcome.result}, and its command names key {named}, not key {events.kid}"


def _of_again(outcome: OutcomeTrace, envelope: CommandEnvelope, known: KeyTrace) -> Iterator[str]:
    """Yield the violations in the outcome of a resubmitted command, by the data keys that encrypt it.

    A payload is not downloaded, so its keys are unknown.
    """
    is_gone = outcome.reason == _GONE
    if envelope.datasha256 is not None:
        if is_gone and not known.ended:
            yield f"is ERASED, and no key of {outcome.subject!r} has ended"
        return
    try:
        kids = kids_in(bytes(envelope.data))
    except ValueError:
        yield "is of a record with a value that is not sealed as an owner does"
        return
    if is_gone and not kids & {*known.ended}:
        yield f"is ERASED, and the key of its command has not ended: {', '.join(sorted(kids)) or 'it has none'}"
    elif kids & {*known.ended} and _is_opened(outcome):
        yield f"is {outcome.result}, and the key of its command had ended: it is to be ERASED"
    if known.kid is not None and (other := kids - {known.kid, *known.ended}):
        yield f"is of a command that is sealed with key {other.pop()}, and key {known.kid} is in force"


def _is_opened(outcome: OutcomeTrace) -> bool:
    """True if the outcome implies that the owner decrypted the command's data. If a command is resubmitted too early,
    the owner does not decrypt its data.
    """
    if outcome.status == "duplicate" or outcome.fingerprint is None:
        return False
    too_early = outcome.reason == "NOT_YET" and outcome.deferredfrom is not None
    return not too_early and outcome.reason not in _UNOPENED


def _after(before: KeyTrace, key: EventKey, at: int, version: int) -> KeyTrace:
    """Return the key entry after an event that uses or deletes a key, and leads to `version`."""
    if key.ends:
        ended = before.ended if key.kid in before.ended else (*before.ended, key.kid)
        return KeyTrace(None if before.kid in (None, key.kid) else before.kid, ended, at, version)
    return KeyTrace(before.kid if key.kid in before.ended else key.kid, before.ended, at, before.erased)


def _contradiction(before: KeyTrace, key: EventKey, subject: str) -> str | None:
    """Return the fault of an event that uses or deletes a key; None if it is correct."""
    if key.kid in before.ended:
        what = "ends" if key.ends else "is sealed with"
        return f"{what} key {key.kid} of {subject!r}, which had ended before"
    if before.kid not in (None, key.kid):
        what = "ends" if key.ends else "is sealed with"
        return f"{what} key {key.kid} of {subject!r}, and key {before.kid} is in force: no event has ended it"
    return None


def _has_seals(envelope: CommandEnvelope) -> bool:
    try:
        return has_encrypted_shape(bytes(envelope.data))
    except (ValueError, RecursionError):
        return False
