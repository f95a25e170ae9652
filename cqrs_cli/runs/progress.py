"""The progress of a run, read from the claims."""

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.deciding.explain import hidden_commands
from cqrs_cli.deciding.measures import REBUILDING
from cqrs_cli.deciding.plan import OwnerResult, Partition, Plan
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessResult
from cqrs_cli.following.processes.watcher import ProcessWatcher
from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.kafka.clients import consumer, unreachable
from cqrs_cli.kafka.offsets import committed
from cqrs_cli.kafka.readers import MissingError, watermarks
from cqrs_cli.ownership.claim import Claim, parse_claim
from cqrs_cli.runs.reports import Reports
from cqrs_cli.runs.snapshot import Snapshot


class Progress:
    """Reads the claims of a run's partitions, over one connection per aggregate. Use as a context manager."""

    def __init__(self, plan: Plan, reports: Reports, processes: ProcessPlan | None = None) -> None:
        self._plan = plan
        self.watcher = None if processes is None else ProcessWatcher(processes)
        self.reports = reports
        self.submission = plan.submission  # the present one
        self._clients: dict[str, Consumer] = {}
        self._claims: dict[Partition, Claim] = {}
        self._waiting: dict[Partition, tuple[int, float]] = {}  # position and since when, where commands wait
        self._named: set[tuple[str, int, int, int]] = set()  # transactions that hide commands
        self._asked = 0.0
        self._connect()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._disconnect()
        if self.watcher is not None:
            self.watcher.close()

    def begin(self, submission: int) -> None:
        """Watch this submission from now on."""
        self.submission = submission
        if self.watcher is not None:
            self.watcher.begin(submission)

    def _connect(self) -> None:
        for name, found in self._plan.topics.items():
            group = found.topics.group
            self._clients[name] = consumer(self._plan.connection, group=group, isolation="read_uncommitted")

    def _disconnect(self) -> None:
        for client in self._clients.values():
            client.close()

    def look(self) -> Snapshot:
        """Read the progress now; raises `UnavailableError` if the broker does not answer."""
        lags: dict[Partition, int] = {}
        now = time.monotonic()
        try:
            for name, found in self._plan.topics.items():
                client, topic = self._clients[name], found.topics.commands
                for partition, place in committed(client, topic, range(found.partitions)).items():
                    claim = parse_claim(place.metadata)
                    if claim is not None and self._is_ours(claim):
                        self._claims[Partition(name, partition)] = claim
                    start, end = watermarks(client, topic, partition)
                    at = max(start, place.offset or 0)
                    lags[Partition(name, partition)] = max(0, end - at)
                    self._wait(Partition(name, partition), at if at < end else None, now)
        except (KafkaException, MissingError) as error:
            # Never patched in place: a client that once met a broker cut off from the others said "unknown partition"
            # for minutes after all of them were back. The owners find out whether one is really missing.
            self._disconnect()
            self._connect()
            why = error.message if isinstance(error, MissingError) else error
            raise unreachable(self._plan.connection, why) from error
        return Snapshot(
            time.monotonic(),
            {partition: claim.counts for partition, claim in self._claims.items()},
            sum(lags.values()),
            lags=lags,
            reports=self._reports(),
            unowned=tuple(self.unclaimed()),
            submission=self.submission,
            processes=None if self.watcher is None else self.watcher.look(),
        )

    def _reports(self) -> dict[Partition, OwnerReport]:
        """The reports of the present submission's owners."""
        return {
            partition: report
            for partition, report in self.reports.latest().items()
            if report.submission >= self.submission
        }

    def rebuilding(self) -> list[Partition]:
        """The partitions whose owners fold their shards, before they claim or after."""
        return [partition for partition, report in self._reports().items() if report.step in REBUILDING]

    def checkpointing(self) -> bool:
        """True if an owner has ended, and writes the last checkpoint of its shard."""
        return any(report.step == "checkpoint" for report in self._reports().values())

    def _wait(self, partition: Partition, at: int | None, now: float) -> None:
        """Note where a partition stands; `at` is None if it has decided everything."""
        if at is None:
            self._waiting.pop(partition, None)
        elif self._waiting.get(partition, (None, now))[0] != at:
            self._waiting[partition] = at, now

    def hidden(self, patience: float) -> list[OpenTransaction]:
        """The transactions of clients that have hidden commands for `patience` seconds, each once."""
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

    def _is_ours(self, claim: Claim) -> bool:
        return (claim.run_epoch, claim.run) == (self._plan.run_epoch, self._plan.run)

    def claimed(self) -> bool:
        """True if the present submission has claimed anything."""
        decides = any(claim.submission >= self.submission for claim in self._claims.values())
        return decides or (self.watcher is not None and self.watcher.claimed)

    def suspicions(self) -> list[str]:
        """The commands and events on which workers may be dying, as of the last look."""
        found = [
            f"{name} partition {number}: {claim.trial}"
            for (name, number), claim in sorted(self._claims.items())
            if claim.trial is not None
        ]
        return found if self.watcher is None else found + self.watcher.suspicions()

    def unclaimed(self) -> list[Partition]:
        """The partitions that the present submission has not claimed."""
        return [
            partition
            for partition in self._plan.partitions()
            if partition not in self._claims or self._claims[partition].submission < self.submission
        ]

    def final(self, endings: "Sequence[OwnerResult | ProcessResult]") -> Snapshot:
        """The final counts, from the owners' own results."""
        try:
            last = self.look()
        except UnavailableError:
            last = Snapshot(time.monotonic())
        reacted = [ending for ending in endings if isinstance(ending, ProcessResult)]
        return Snapshot(
            time.monotonic(),
            {ending.partition: ending.counts for ending in endings if isinstance(ending, OwnerResult)},
            last.lag,
            sum(ending.cpu for ending in endings),
            reports=self._reports(),
            submission=self.submission,
            processes=None if last.processes is None else last.processes.ended(reacted),
        )
