"""From one command of an aggregate to the next no version is missing, and none is there twice."""

from cqrs_cli.proof.decided import Losses
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.findings import Findings, Kind
from cqrs_cli.proof.traces import EventsTrace, OutcomeTrace
from cqrs_cli.proof.verdict import BLIND


class Versions:
    """Takes in command after command. Where outcome and events differ, which is told elsewhere, the outcome counts."""

    def __init__(self, has_begin: bool, losses: Losses, recall: DedupIndex, findings: Findings) -> None:
        """`has_begin`: the events are there from the first one on."""
        self.aggregates = 0
        self._has_begin = has_begin
        self._losses = losses
        self._recall = recall
        self._findings = findings

    def judge(self, command: int, told: OutcomeTrace | None, written: EventsTrace | None) -> None:
        """What a command did to its aggregate."""
        if written is not None and written.reach < written.count:
            what = f"is of command {command}, whose events are missing from event {written.reach} of {written.count} on"
            self._losses.lacks(command, "events", written.at, what)
        if told is not None and told.status == "accepted":
            if written is None:
                what = f"is of command {command}, whose events are missing: {told.events}"
                self._losses.lacks(command, "outcomes", told.at, what)
            if told.subject is not None:
                kind: Kind = "outcomes" if written is None else "events"
                at = told.at if written is None else written.at
                self._follows(command, kind, at, told.subject, told.version - told.events, told.version)
        elif written is not None:
            self._follows(command, "events", written.at, written.subject, written.version - 1, written.last)
        elif told is not None and told.subject is not None and told.reason not in BLIND:
            self._follows(command, "outcomes", told.at, told.subject, told.version, told.version)
        elif told is not None and told.version:
            self._findings.add("outcomes", told.at, f"is {told.reason}, and says version {told.version}")

    def _follows(self, command: int, kind: Kind, at: int, subject: str, begins: int, ends: int) -> None:
        saved = self._recall.saved(subject)
        version = 0 if saved is None else saved.version
        if begins != version and (saved is not None or self._has_begin):
            if self._losses.follow(command, None if saved is None else saved.offset):
                self._findings.accepted += 1
            else:
                self._findings.add(kind, at, _out_of_order(subject, version, begins, ends))
        if ends > begins:
            self.aggregates += saved is None
            self._recall.save(subject, ends, command)


def _out_of_order(subject: str, version: int, begins: int, ends: int) -> str:
    if begins == ends:
        return f"says that {subject!r} is at version {ends}, which is at {version}"
    wrong = "a version is there twice" if begins < version else "versions are missing"
    return f"goes on from version {begins} of {subject!r}, which is at {version}: {wrong}"
