"""What must hold between a command, its outcome, its events and its dead letter."""

from cqrs_cli.proof import checks
from cqrs_cli.proof.dead_letters import checksums
from cqrs_cli.proof.decided import Decided, Losses
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.duplicates import Duplicates
from cqrs_cli.proof.findings import Findings, Kind
from cqrs_cli.proof.join import Row
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import DeadLetterTrace, EventsTrace, Index, OutcomeTrace
from cqrs_cli.proof.versions import Versions


class Rules:
    """Judges row after row, in the order of the commands."""

    def __init__(
        self, scope: Scope, decided: Decided, outcomes: Index, recall: DedupIndex, findings: Findings
    ) -> None:
        self.commands = 0
        self.deleted: dict[Kind, int] = {"commands": 0, "outcomes": 0, "dead-letters": 0}
        self._scope = scope
        self._decided = decided
        self._recall = recall
        self._add = findings.add
        losses = Losses(decided, scope.loss.at if scope.loss else None, findings)
        self._lacks = losses.lacks
        self._repeats = Duplicates(scope, decided, losses, outcomes, recall, findings)
        self._versions = Versions(not scope.starts["events"], losses, recall, findings)

    @property
    def aggregates(self) -> int:
        """How many there are."""
        return self._versions.aggregates

    def judge(self, row: Row) -> None:
        """Find everything that is wrong about one command."""
        offset, record, told, written, buried = row
        self.commands += record is not None
        if told is None:
            self._untold(row)
        else:
            self._told(row, told)
            self._recall.at(told.timestamp)
            self._repeats.judge(offset, told)
            if written is not None:
                self._compare(offset, told, written)
            self._letter(row, told, buried)
        self._versions.judge(offset, told, written)

    def _untold(self, row: Row) -> None:
        """What has no outcome: a command, or what came of one."""
        offset, decided = row.offset, self._decided
        if offset < decided.outcomes:
            self.deleted["outcomes"] += 1
            return
        if row.command is not None:
            self._lacks(offset, "commands", offset, "has no outcome")
        traces: tuple[tuple[Kind, EventsTrace | DeadLetterTrace | None], ...]
        traces = (("events", row.written), ("dead-letters", row.buried))
        for kind, trace in traces:
            if trace is not None and offset >= decided.at_most:
                self._add(kind, trace.at, f"is of command {offset}, which is not decided yet")
            elif trace is not None:
                self._lacks(offset, kind, trace.at, f"is of command {offset}, which has no outcome")

    def _told(self, row: Row, told: OutcomeTrace) -> None:
        """An outcome and its command."""
        offset, end = row.offset, self._decided.at_most
        if offset >= end:
            what = f"is of command {offset}, and the committed offset says that only those below {end} are decided"
            self._add("outcomes", told.at, what)
        elif row.command is not None:
            for fault in checks.faults(self._scope, row.command, told):
                self._add("outcomes", told.at, fault)
        elif offset < self._decided.commands:
            self.deleted["commands"] += 1
        else:
            self._add("outcomes", told.at, f"is of command {offset}, which does not exist")

    def _compare(self, offset: int, told: OutcomeTrace, written: EventsTrace) -> None:
        """Events and the outcome of their command: it caused them, and tells how many and where they lead."""
        at = written.at
        if told.status != "accepted":
            self._add("events", at, f"is of command {offset}, whose outcome is {told.reason or told.status}")
            return
        if written.count != told.events:
            what = f"is one of {written.count} events of command {offset}, whose outcome says {told.events}"
            self._add("events", at, what)
        elif written.last != told.version:
            what = f"leads {written.subject!r} to version {written.last}, its command's outcome to {told.version}"
            self._add("events", at, what)
        named = (written.subject, written.cause, written.correlation)
        if named != (told.subject, told.cause, told.correlation):
            wanted = (told.subject, told.cause, told.correlation)
            what = f"has subject, causationid and correlationid {named}, its command's outcome {wanted}"
            self._add("events", at, what)
        if written.timestamp != told.timestamp:
            self._add("events", at, "does not have the timestamp of its command's outcome")

    def _letter(self, row: Row, told: OutcomeTrace, buried: DeadLetterTrace | None) -> None:
        """What failed is kept in the dead letters, and nothing else is."""
        offset, failed = row.offset, told.status == "failed"
        if buried is None:
            if failed and offset < self._decided.letters:
                self.deleted["dead-letters"] += 1
            elif failed:
                self._lacks(offset, "outcomes", told.at, f"is of command {offset}, which has no dead letter")
            return
        at = buried.at
        if not failed:
            what = f"is of command {offset}, whose outcome is {told.reason or told.status}"
            self._add("dead-letters", at, what)
            return
        if (buried.reason, buried.key, buried.timestamp) != (told.reason, told.key, told.timestamp):
            self._add("dead-letters", at, "has another reason, key or timestamp than its command's outcome")
        if row.command is not None and not checks.given_up(told):
            kept = checksums(row.command.value, row.command.headers)
            if (buried.value, buried.headers) != kept:
                self._add("dead-letters", at, f"does not have the bytes and headers of command {offset}")
