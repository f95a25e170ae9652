"""The dedup rule: an id is decided once within the dedup window, and a duplicate points to that decision."""

from cqrs_cli.core.messages.reasons import is_remembered
from cqrs_cli.core.stored import DedupEntry
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.findings import DecidedRange, Findings, Losses
from cqrs_cli.proof.join import find_outcome
from cqrs_cli.proof.positions import ProvedPlace, proved_place
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import Lookup, OutcomeTrace
from cqrs_cli.proof.verdict import BLIND


class Duplicates:
    """Checks the outcomes in the order of the commands.

    Records do not contain the dedup window of their time. If the window was changed, the shortest window applies to ids
    that were decided again, and the longest window to duplicates.
    """

    def __init__(
        self,
        scope: Scope,
        decided: DecidedRange,
        losses: Losses,
        outcomes: Lookup,
        dedup: DedupIndex,
        findings: Findings,
    ) -> None:
        self._shortest = scope.window
        self._longest = max(scope.window, scope.longest_window or 0)
        self._decided = decided
        self._losses = losses
        self._outcomes = outcomes
        self._dedup = dedup
        self._findings = findings

    def check(self, command: int, outcome: OutcomeTrace) -> None:
        """Check one outcome, and store its decision.

        Failed commands are not stored, because their ids may be retried; duplicates are not stored either. A command
        that fails before the owner looks up its id is skipped.
        """
        subject, id, fingerprint = outcome.subject, outcome.cause, outcome.fingerprint
        if subject is None or id is None or fingerprint is None or outcome.reason in BLIND:
            return
        before = self._dedup.find_dedup_entry(subject, id)
        if outcome.original is not None:
            if not self._decided.began_again:
                self._points_to_first(command, outcome, outcome.original, before)
            return
        failed = outcome.status == "failed"
        if not (failed or is_remembered(outcome.status, outcome.reason)):
            return
        ago = 0 if before is None else self._dedup.clock - before.timestamp
        if before is not None and ago <= self._shortest:
            what = f"decides id {id!r} of {subject!r} again, as command {_place(before)} {ago} ms before"
            self._findings.add("outcomes", outcome.at, what)
        if failed:
            return
        decision = (outcome.timestamp, command, outcome.status, outcome.version, outcome.events, fingerprint)
        self._dedup.remember(subject, id, DedupEntry(*decision, self._dedup.parent))

    def _points_to_first(
        self,
        command: int,
        outcome: OutcomeTrace,
        original: tuple[ProvedPlace, str, int, int],
        before: DedupEntry | None,
    ) -> None:
        place, status, version, events = original
        is_later = isinstance(place, int) and place >= command
        found = None if is_later else find_outcome(self._outcomes, place)
        if found is None:
            if not self._decided.is_deleted(place):
                what = f"points to command {place}, which has no outcome before it"
                self._losses.missing(command, "outcomes", outcome.at, what)
            return
        what, ago = "", self._dedup.clock - found.timestamp
        if (found.subject, found.cause, found.original) != (outcome.subject, outcome.cause, None):
            what = f"points to command {place}, whose outcome is another's"
        elif (found.status, found.version, found.events) != (status, version, events):
            what = f"points to command {place}, whose status, version or number of events is another"
        elif before is not None and _place(before) != place and status != "deferred":
            what = f"points to command {place}, though command {_place(before)} was the last to decide its id"
        elif (found.fingerprint == outcome.fingerprint) != (outcome.status == "duplicate"):
            what = f"is {outcome.result}, which contradicts the fingerprint of command {place}"
        elif ago > self._longest and status != "deferred":
            what = f"points to command {place} {ago} ms before, though an id is remembered for {self._longest} ms"
        if what:
            self._findings.add("outcomes", outcome.at, what)


def _place(decision: DedupEntry) -> ProvedPlace:
    return proved_place(decision.offset, decision.partition)
