"""An id is decided once within the window, and a repetition points to that decision."""

from cqrs_cli.core.stored import REMEMBERED, DedupEntry
from cqrs_cli.proof.decided import Decided, Losses
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.join import told_of
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import Index, OutcomeTrace
from cqrs_cli.proof.verdict import BLIND


class Duplicates:
    """Takes in outcome after outcome, in the order of the commands.

    The records do not tell the window that was set when they were decided. So where it was changed the shortest counts
    for ids that are decided again, and the longest for repetitions.
    """

    def __init__(
        self,
        scope: Scope,
        decided: Decided,
        losses: Losses,
        outcomes: Index,
        recall: DedupIndex,
        findings: Findings,
    ) -> None:
        self._shortest = scope.window
        self._longest = max(scope.window, scope.longest_window or 0)
        self._decided = decided
        self._losses = losses
        self._outcomes = outcomes
        self._recall = recall
        self._findings = findings

    def judge(self, command: int, told: OutcomeTrace) -> None:
        """A failed command is not remembered: its id may be tried again. Nor is a repetition. What fails before it is
        looked up whether its id was decided is none of ours.
        """
        if told.subject is None or told.cause is None or told.fingerprint is None or told.reason in BLIND:
            return
        before = self._recall.remembered(told.subject, told.cause)
        if told.original is not None:
            if not self._decided.began_again:
                self._points_to_first(command, told, told.original, before)
            return
        failed = told.status == "failed"
        if not (failed or told.status in REMEMBERED) or told.reason == "ID_REUSED":
            return
        ago = 0 if before is None else self._recall.clock - before.timestamp
        if before is not None and ago <= self._shortest:
            what = f"decides id {told.cause!r} of {told.subject!r} again, as command {before.offset} {ago} ms before"
            self._findings.add("outcomes", told.at, what)
        if failed:
            return
        decision = (told.timestamp, command, told.status, told.version, told.events, told.fingerprint)
        self._recall.remember(told.subject, told.cause, DedupEntry(*decision))

    def _points_to_first(
        self, command: int, told: OutcomeTrace, original: tuple[int, str, int, int], before: DedupEntry | None
    ) -> None:
        place, status, version, events = original
        found = told_of(self._outcomes, place) if place < command else None
        if found is None:
            if not place < self._decided.outcomes:
                what = f"points to command {place}, which has no outcome before it"
                self._losses.lacks(command, "outcomes", told.at, what)
            return
        what, ago = "", self._recall.clock - found.timestamp
        if (found.subject, found.cause, found.original) != (told.subject, told.cause, None):
            what = f"points to command {place}, whose outcome is another's"
        elif (found.status, found.version, found.events) != (status, version, events):
            what = f"points to command {place}, and tells otherwise what became of it"
        elif before is not None and before.offset != place:
            what = f"points to command {place}, though command {before.offset} was the last to decide its id"
        elif (found.fingerprint == told.fingerprint) != (told.status == "duplicate"):
            what = f"is {told.reason or told.status}, unlike what the fingerprint of command {place} says"
        elif ago > self._longest:
            what = f"points to command {place} {ago} ms before, though an id is remembered for {self._longest} ms"
        if what:
            self._findings.add("outcomes", told.at, what)
