"""The dedup rule: a command id is decided once within the dedup window, and a duplicate points to that decision."""

from cqrs_cli.core.messages.reasons import is_remembered
from cqrs_cli.core.stored import DedupEntry
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.findings import DecidedRange, Findings, Losses
from cqrs_cli.proof.index_entries import Lookup, OutcomeEntry
from cqrs_cli.proof.join import find_outcome
from cqrs_cli.proof.positions import CommandPosition, command_position
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.verdict import REASONS_BEFORE_STATE_LOOKUP


class Duplicates:
    """Checks the outcomes in the order of the commands.

    The dedup window at the time of a decision is unknown, because operators may change it. So the check is lenient: an
    id may be decided again after the shortest window of all runs, and a duplicate may be found within the longest.
    """

    def __init__(
        self,
        scope: Scope,
        decided_range: DecidedRange,
        losses: Losses,
        outcomes: Lookup,
        dedup: DedupIndex,
        findings: Findings,
    ) -> None:
        self._shortest_window = scope.shortest_window
        self._longest_window = max(scope.shortest_window, scope.longest_window or 0)
        self._decided_range = decided_range
        self._losses = losses
        self._outcomes = outcomes
        self._dedup = dedup
        self._findings = findings

    def check_decision(self, command_offset: int, outcome: OutcomeEntry) -> None:
        """Check one outcome, and store its decision.

        Decisions `failed` are not stored, because a sender may retry the id. Duplicates are not stored either. Commands
        that failed before the owner looked up their id are skipped.
        """
        subject, id, fingerprint = outcome.subject, outcome.cause, outcome.fingerprint
        if (
            subject is None
            or id is None
            or fingerprint is None
            or outcome.reason in REASONS_BEFORE_STATE_LOOKUP
        ):
            return
        previous = self._dedup.find_dedup_entry(subject, id)
        if outcome.original is not None:
            if not self._decided_range.topic_recreated:
                self._check_duplicate(command_offset, outcome, outcome.original, previous)
            return
        failed = outcome.status == "failed"
        if not (failed or is_remembered(outcome.status, outcome.reason)):
            return
        age = 0 if previous is None else self._dedup.clock - previous.timestamp
        if previous is not None and age <= self._shortest_window:
            problem = (
                f"decides id {id!r} of {subject!r} again, as command {_position_of(previous)} {age} ms before"
            )
            self._findings.add_violation("outcomes", outcome.offset, problem)
        if failed:
            return
        decision = (
            outcome.timestamp,
            command_offset,
            outcome.status,
            outcome.version,
            outcome.events,
            fingerprint,
        )
        self._dedup.add_decision(subject, id, DedupEntry(*decision, self._dedup.parent))

    def _check_duplicate(
        self,
        command_offset: int,
        outcome: OutcomeEntry,
        original: tuple[CommandPosition, str, int, int],
        last_decision: DedupEntry | None,
    ) -> None:
        position, status, version, events = original
        is_later = isinstance(position, int) and position >= command_offset
        first_outcome = None if is_later else find_outcome(self._outcomes, position)
        if first_outcome is None:
            if not self._decided_range.is_deleted(position):
                problem = f"points to command {position}, which has no outcome before it"
                self._losses.report_missing(command_offset, "outcomes", outcome.offset, problem)
            return
        problem, age = "", self._dedup.clock - first_outcome.timestamp
        if (first_outcome.subject, first_outcome.cause, first_outcome.original) != (
            outcome.subject,
            outcome.cause,
            None,
        ):
            problem = f"points to command {position}, whose outcome is of another id"
        elif (first_outcome.status, first_outcome.version, first_outcome.events) != (status, version, events):
            problem = f"points to command {position}, whose status, version or number of events differs"
        elif last_decision is not None and _position_of(last_decision) != position and status != "deferred":
            problem = (
                f"points to command {position}, though command {_position_of(last_decision)} was the last to "
                f"decide its id"
            )
        elif (first_outcome.fingerprint == outcome.fingerprint) != (outcome.status == "duplicate"):
            problem = f"is {outcome.result}, which contradicts the fingerprint of command {position}"
        elif age > self._longest_window and status != "deferred":
            problem = (
                f"points to command {position} {age} ms before, though an id is remembered for "
                f"{self._longest_window} ms"
            )
        if problem:
            self._findings.add_violation("outcomes", outcome.offset, problem)


def _position_of(decision: DedupEntry) -> CommandPosition:
    return command_position(decision.offset, decision.partition)
