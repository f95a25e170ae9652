"""The version rule: the versions of an aggregate are consecutive; no version is missing or repeated."""

from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.findings import Findings, LogName, Losses
from cqrs_cli.proof.traces import EventsTrace, OutcomeTrace
from cqrs_cli.proof.verdict import BLIND


class Versions:
    """Checks the commands in order. If outcome and events differ, which `Rules` reports, the outcome is used."""

    def __init__(self, has_begin: bool, losses: Losses, dedup: DedupIndex, findings: Findings) -> None:
        """`has_begin`: the events are complete from the first event on."""
        self.aggregates = 0
        self._has_begin = has_begin
        self._losses = losses
        self._dedup = dedup
        self._findings = findings

    def check(self, command: int, outcome: OutcomeTrace | None, events: EventsTrace | None) -> None:
        """Check the version to which a command led its aggregate."""
        if events is not None and events.reach < events.count:
            what = f"is of command {command}, whose events are missing from event {events.reach} of {events.count} on"
            self._losses.missing(command, "events", events.at, what)
        if outcome is not None and outcome.status == "accepted":
            self._check_accepted(command, outcome, events)
        elif events is not None:
            self._follows(command, "events", events.at, events.subject, events.version - 1, events.last)
        elif outcome is not None and outcome.subject is not None and outcome.reason not in BLIND:
            version = outcome.version
            self._follows(command, "outcomes", outcome.at, outcome.subject, version, version)
        elif outcome is not None and outcome.version:
            what = f"is {outcome.reason}, and says version {outcome.version}"
            self._findings.add("outcomes", outcome.at, what)

    def _check_accepted(self, command: int, outcome: OutcomeTrace, events: EventsTrace | None) -> None:
        if events is None:
            what = f"is of command {command}, whose events are missing: {outcome.events}"
            self._losses.missing(command, "outcomes", outcome.at, what)
        if outcome.subject is not None:
            kind: LogName = "outcomes" if events is None else "events"
            at = outcome.at if events is None else events.at
            begins = outcome.version - outcome.events
            self._follows(command, kind, at, outcome.subject, begins, outcome.version)

    def _follows(self, command: int, kind: LogName, at: int, subject: str, begins: int, ends: int) -> None:
        saved = self._dedup.find_state(subject)
        version = 0 if saved is None else saved.version
        if begins != version and (saved is not None or self._has_begin):
            if self._losses.follow(command, None if saved is None else saved.offset):
                self._findings.accepted += 1
            else:
                self._findings.add(kind, at, _out_of_order(subject, version, begins, ends))
        if ends > begins:
            self.aggregates += saved is None
            self._dedup.save(subject, ends, command, b"" if saved is None else saved.state)


def _out_of_order(subject: str, version: int, begins: int, ends: int) -> str:
    if begins == ends:
        return f"says that {subject!r} is at version {ends}, which is at {version}"
    wrong = "a version is there twice" if begins < version else "versions are missing"
    return f"goes on from version {begins} of {subject!r}, which is at {version}: {wrong}"
