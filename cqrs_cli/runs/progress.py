"""The progress of a run, read from the claims."""

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from cqrs_cli.deciding.errors import hidden_commands
from cqrs_cli.deciding.measures import REBUILDING
from cqrs_cli.deciding.plan import OwnerResult, Partition, Plan
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.explain import explain_trial
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessProgress, ProcessResult
from cqrs_cli.following.processes.topics import heard_topics
from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.committed_claims import ClaimReader, ClaimSlot, CommittedClaim
from cqrs_cli.ownership.owner_exit import OwnerExit
from cqrs_cli.runs.reports import Reports
from cqrs_cli.runs.run_partitions import RunPlace, places
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.runs.takeover import Takeover


class BrokerAnswer(NamedTuple):
    """The committed claims, by partition; and the start and end of the logs, or the error of that request."""

    found: dict[RunPlace, CommittedClaim]
    bounds: dict[RunPlace, tuple[int, int]] | UnavailableError


class Progress:
    """Reads the claims of a run's partitions and subscriptions. Use as a context manager."""

    def __init__(self, plan: Plan, reports: Reports, processes: ProcessPlan | None = None) -> None:
        self._plan, self._processes = plan, processes
        self.topics = None if processes is None else heard_topics(processes, processes.subscriptions)
        self.reports = reports
        self.takeover = Takeover(plan, processes)
        self._again = 0  # the number of resubmitted tasks
        self._since = dict.fromkeys(places(plan, processes), plan.submission)  # older claims do not count
        self.at_work = False  # whether this run owns any partition
        self._claims: dict[RunPlace, Claim] = {}
        self._lost: set[RunPlace] = set()  # owned by another run, while this run is a standby
        self._waiting: dict[Partition, tuple[int, float]] = {}  # position and since when, if commands wait
        self._named: set[tuple[str, int, int, int]] = set()  # reported transactions that hide commands
        self._asked = 0.0
        heard = processes.seats().items() if processes else ()
        seats: dict[RunPlace, ClaimSlot] = dict([*plan.seats().items(), *heard])
        self.seats = seats.values()
        self._standings, self._reading = ClaimReader(plan.connection, seats), threading.Lock()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        with self._reading:  # the driver may have left a poll running
            self._standings.__exit__()

    def begin(self, lost: Sequence[RunPlace], submission: int) -> None:
        """Watch this submission of these partitions: claims of earlier submissions no longer count."""
        self._again += submission > self._plan.submission
        self._since.update(dict.fromkeys(lost, submission))

    def beats(self) -> bool:
        """True if the run sends heartbeats. A standby run does not, so that it does not look like the active run."""
        return self.at_work or self._plan.timing.standby_timeout is None

    def look(self) -> Snapshot:
        """Return the current progress; raises `UnavailableError` if the broker does not answer."""
        return self.note(self.read())

    def read(self) -> BrokerAnswer:
        """Poll the broker, in any thread, and store nothing. Raises `UnavailableError` if there is no answer."""
        with self._reading:
            found = self._standings.look()
            try:
                return BrokerAnswer(found, self._standings.bounds())
            except UnavailableError as error:
                return BrokerAnswer(found, error)

    def note(self, answer: BrokerAnswer) -> Snapshot:
        """Store the broker's answer; return the progress. Raises `UnavailableError` if the answer has no log bounds."""
        found, bounds = answer
        self.takeover.see(found)
        for place, one in found.items():
            if one.claim is not None and one.claim.run == self._plan.run:
                self._claims[place] = one.claim
        if self._plan.timing.standby_timeout is not None:
            self._lost = {at for at, one in found.items() if one.claim and one.claim.run != self._plan.run}
        self.at_work = any(one.open_claim and one.open_claim.run == self._plan.run for one in found.values())
        if isinstance(bounds, UnavailableError):
            raise bounds
        lags = {at: self._lag(at, found[at].offset or 0, *bounds[at]) for at in self._plan.partitions()}
        return Snapshot(
            time.monotonic(),
            {at: claim.counts for at, claim in self._claims.items() if isinstance(at, Partition)},
            sum(lags.values()),
            lags=lags,
            reports=self._reports(),
            unowned=tuple(at for at in self._plan.partitions() if not self._is_claimed(at)),
            again=self._again,
            processes=self._heard(found, bounds),
        )

    def _heard(
        self,
        found: "dict[RunPlace, CommittedClaim]",
        bounds: "dict[RunPlace, tuple[int, int]]",
    ) -> ProcessProgress | None:
        """Return the progress of the processes: the groups' committed offsets are copies of their positions."""
        if self._processes is None:
            return None
        heard, events = self._processes.subscriptions, self._processes.events
        unheard = (at for at in heard if found[at].offset is None)
        return ProcessProgress(
            time.monotonic(),
            {at: offset for at in heard if (offset := found[at].offset) is not None},
            self._processes.targets or {at: bounds[at][1] for at in heard},
            frozenset(filter(self._is_claimed, heard)),
            frozenset(at for at in unheard if events[at.source.topic].is_inherited(at.source.partition)),
            self._again,
        )

    def _is_claimed(self, place: RunPlace) -> bool:
        """True if the partition was claimed since its last submission."""
        if place in self._lost or place not in self._claims:
            return False
        return self._claims[place].submission >= self._since[place]

    def _reports(self) -> dict[Partition, OwnerReport]:
        """Return the reports of owners from current submissions."""
        return {
            partition: report
            for partition, report in self.reports.latest().items()
            if report.submission >= self._since[partition]
        }

    def rebuilding(self) -> list[Partition]:
        """Return the partitions whose owners fold their shards, before the claim or after it."""
        return [partition for partition, report in self._reports().items() if report.step in REBUILDING]

    def checkpointing(self) -> bool:
        """True if an owner has ended, and writes the last checkpoint of its shard."""
        return any(report.step == "checkpoint" for report in self._reports().values())

    def _lag(self, partition: Partition, offset: int, start: int, end: int) -> int:
        """Return the number of undecided commands; note since when the position has not changed."""
        at = max(start, offset)
        if at >= end:
            self._waiting.pop(partition, None)
        elif self._waiting.get(partition, (None, 0.0))[0] != at:
            self._waiting[partition] = at, time.monotonic()
        return max(0, end - at)

    def hidden(self, patience: float) -> list[OpenTransaction]:
        """Return the transactions of clients that have hidden commands for `patience` seconds, each only once."""
        now = time.monotonic()
        stuck = [partition for partition, (_, since) in self._waiting.items() if now - since >= patience]
        if not stuck or now - self._asked < patience:
            return []
        self._asked = now
        places = [(self._plan.topics[name].topics.commands, number) for name, number in stuck]
        found = hidden_commands(self._plan.connection, places)
        fresh = [one for one in found if one.identity not in self._named]
        self._named |= {one.identity for one in fresh}
        return fresh

    def claimed(self, these: Sequence[RunPlace]) -> bool:
        """True if any of these partitions was claimed since its last submission."""
        return any(map(self._is_claimed, these))

    def suspicions(self, these: Sequence[RunPlace]) -> list[str]:
        """Return texts about the suspects in these partitions: records on which workers may be dying."""
        return [
            f"{at.aggregate} partition {at.number}: {claim.trial}"
            if isinstance(at, Partition)
            else f"{at}: {explain_trial(claim.trial)}"
            for at, claim in sorted(self._claims.items(), key=str)
            if at in these and claim.trial is not None
        ]

    def final(self, endings: Sequence[OwnerExit[Any]]) -> Snapshot:
        """Return the final counts, from the owners' own results."""
        try:
            last = self.look()
        except UnavailableError:
            last = Snapshot(time.monotonic())
        reacted = [ending for ending in endings if isinstance(ending, ProcessResult)]
        return Snapshot(
            time.monotonic(),
            {ending.owned: ending.counts for ending in endings if isinstance(ending, OwnerResult)},
            last.lag,
            sum(ending.cpu for ending in endings),
            reports=self._reports(),
            again=self._again,
            processes=None if last.processes is None else last.processes.ended(reacted),
        )
