"""The version rule: the versions of an aggregate are consecutive; no version is missing or repeated."""

from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.findings import Findings, LogName, Losses
from cqrs_cli.proof.index_entries import EventsEntry, OutcomeEntry
from cqrs_cli.proof.verdict import REASONS_BEFORE_STATE_LOOKUP


class Versions:
    """Checks the commands in order. If outcome and events differ, the outcome counts, and `Rules` reports it."""

    def __init__(self, events_complete: bool, losses: Losses, dedup: DedupIndex, findings: Findings) -> None:
        """`events_complete`: no event was deleted before a verification read it. If False, an aggregate without a known
        version may start at any version.
        """
        self.aggregate_count = 0
        self._events_complete = events_complete
        self._losses = losses
        self._dedup = dedup
        self._findings = findings

    def check_version(
        self, command_offset: int, outcome: OutcomeEntry | None, events: EventsEntry | None
    ) -> None:
        """Check the version to which a command led its aggregate."""
        if events is not None and events.events_read < events.count:
            problem = (
                f"is of command {command_offset}, of which only {events.events_read} of {events.count} events"
                " were found"
            )
            self._losses.report_missing(command_offset, "events", events.offset, problem)
        if outcome is not None and outcome.status == "accepted":
            self._check_accepted(command_offset, outcome, events)
        elif events is not None:
            self._check_sequence(
                command_offset,
                "events",
                events.offset,
                events.subject,
                events.version - 1,
                events.last_version,
            )
        elif (
            outcome is not None
            and outcome.subject is not None
            and outcome.reason not in REASONS_BEFORE_STATE_LOOKUP
        ):
            version = outcome.version
            self._check_sequence(
                command_offset, "outcomes", outcome.offset, outcome.subject, version, version
            )
        elif outcome is not None and outcome.version:
            problem = f"is {outcome.reason}, but says version {outcome.version}"
            self._findings.add_violation("outcomes", outcome.offset, problem)

    def _check_accepted(self, command_offset: int, outcome: OutcomeEntry, events: EventsEntry | None) -> None:
        if events is None:
            problem = f"is of command {command_offset}, of which 0 of {outcome.events} events were found"
            self._losses.report_missing(command_offset, "outcomes", outcome.offset, problem)
        if outcome.subject is not None:
            log: LogName = "outcomes" if events is None else "events"
            offset = outcome.offset if events is None else events.offset
            version_before = outcome.version - outcome.events
            self._check_sequence(
                command_offset, log, offset, outcome.subject, version_before, outcome.version
            )

    def _check_sequence(
        self,
        command_offset: int,
        log: LogName,
        offset: int,
        subject: str,
        version_before: int,
        version_after: int,
    ) -> None:
        """Check that a command continues from its aggregate's version, and store the version to which it led."""
        stored_state = self._dedup.find_state(subject)
        version = 0 if stored_state is None else stored_state.version
        if version_before != version and (stored_state is not None or self._events_complete):
            if self._losses.may_skip_versions(
                command_offset, None if stored_state is None else stored_state.offset
            ):
                self._findings.accepted_losses += 1
            else:
                self._findings.add_violation(
                    log, offset, _out_of_order(subject, version, version_before, version_after)
                )
        if version_after > version_before:
            self.aggregate_count += stored_state is None
            self._dedup.set_version(
                subject, version_after, command_offset, b"" if stored_state is None else stored_state.state
            )


def _out_of_order(subject: str, version: int, version_before: int, version_after: int) -> str:
    if version_before == version_after:
        return f"has version {version_after}, but {subject!r} is at version {version}"
    explanation = "a version is repeated" if version_before < version else "versions are missing"
    return f"goes on from version {version_before} of {subject!r}, which is at {version}: {explanation}"
