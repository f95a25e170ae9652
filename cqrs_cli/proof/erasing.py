"""The rules for keys and erasures, from command to command: which key an event may name, and what an outcome says."""

from collections.abc import Iterator

from cqrs_cli.core.erasure import ERASE
from cqrs_cli.core.messages.command import CommandEnvelope, command_or_none
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.sealed_data import has_seals, kids_in
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.keys import EventKey, KeyTrace, read_trace, trace_bytes
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import EventsTrace, OutcomeTrace

#: The type of the command that erases, in its outcomes.
_ERASE = f"{ERASE}."

#: The reason of a deferred command whose key is gone when it is said again.
_GONE = Reason.ERASED.name

#: Reasons of the checks up to the one that reads the data, which opens what is sealed.
_UNOPENED = {reason.name for reason in Reason if reason.check <= 7}


class KeyRules:
    """Checks command after command, once their versions are kept."""

    def __init__(self, scope: Scope, dedup: DedupIndex, findings: Findings, has_begin: bool) -> None:
        """`has_begin`: the events are there from the first one on."""
        self._scope, self._dedup, self._findings = scope, dedup, findings
        self._is_whole = has_begin and scope.loss is None

    def check(self, record: Record | None, outcome: OutcomeTrace | None, events: EventsTrace | None) -> None:
        """Check the keys that a command and its events name."""
        subject = None if outcome is None else outcome.subject
        if outcome is not None and subject is not None:
            known = self._known(subject)
            for what in self._of_outcome(record, outcome, events, known):
                self._findings.add("outcomes", outcome.at, what)
        if events is not None and events.kid is not None:
            self._note(events, EventKey(events.kid, events.ends))

    def _known(self, subject: str) -> KeyTrace:
        saved = self._dedup.saved(subject)
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
        if erases and outcome.status == "unchanged" and known.kid is not None:
            yield f"is unchanged, and key {known.kid} of {outcome.subject!r} is in force"
        if outcome.reason == _GONE and outcome.deferredfrom is None:
            yield "is ERASED, and its command was never deferred"
        envelope = command_or_none(record)
        if envelope is None:
            if outcome.reason == _GONE and self._is_whole and not known.ended:
                yield f"is ERASED, and no key of {outcome.subject!r} has ended"
        elif outcome.deferredfrom is None:
            if _is_opened(outcome) and _has_seals(envelope):
                yield f"is {outcome.result}, and its sender has sealed its command"
        elif self._is_whole:
            yield from _of_again(outcome, envelope, known)


def _of_again(outcome: OutcomeTrace, envelope: CommandEnvelope, known: KeyTrace) -> Iterator[str]:
    """Yield what is wrong with the outcome of a command that was said again, by the keys that seal it.

    A payload is not read, so its keys are not known.
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
    """True for an outcome that only a command has whose data were read. Said again too early, none are."""
    if outcome.status == "duplicate" or outcome.fingerprint is None:
        return False
    too_early = outcome.reason == "NOT_YET" and outcome.deferredfrom is not None
    return not too_early and outcome.reason not in _UNOPENED


def _after(before: KeyTrace, key: EventKey, at: int, version: int) -> KeyTrace:
    """The trace after an event that names a key, and leads to this version."""
    if key.ends:
        ended = before.ended if key.kid in before.ended else (*before.ended, key.kid)
        return KeyTrace(None if before.kid in (None, key.kid) else before.kid, ended, at, version)
    return KeyTrace(before.kid if key.kid in before.ended else key.kid, before.ended, at, before.erased)


def _contradiction(before: KeyTrace, key: EventKey, subject: str) -> str | None:
    """The fault of an event that names a key, None if it has none."""
    if key.kid in before.ended:
        what = "ends" if key.ends else "is sealed with"
        return f"{what} key {key.kid} of {subject!r}, which had ended before"
    if before.kid not in (None, key.kid):
        what = "ends" if key.ends else "is sealed with"
        return f"{what} key {key.kid} of {subject!r}, and key {before.kid} is in force: no event has ended it"
    return None


def _has_seals(envelope: CommandEnvelope) -> bool:
    try:
        return has_seals(bytes(envelope.data))
    except (ValueError, RecursionError):
        return False
