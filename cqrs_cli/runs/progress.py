"""Determines the progress of a run for its driver, from the committed claims and the owners' reports."""

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from cqrs_cli.deciding.errors import transactions_hiding_commands
from cqrs_cli.deciding.measures import REBUILDING
from cqrs_cli.deciding.plan import OwnerResult, Partition, Plan
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.errors import describe_suspects
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessProgress, ProcessResult
from cqrs_cli.following.processes.topics import events_topic_identity
from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.committed_claims import ClaimReader, ClaimSlot, CommittedClaim
from cqrs_cli.ownership.owner_exit import OwnerExit
from cqrs_cli.runs.reports import Reports, ReportSilence
from cqrs_cli.runs.run_partitions import RunPartition, run_partitions
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.runs.takeover import Takeover


class BrokerAnswer(NamedTuple):
    """The result of one poll of the brokers."""

    claims: dict[RunPartition, CommittedClaim]  # partition → its committed claim
    #: Partition → (start, end) of its log; or the error if the bounds could not be read.
    bounds: dict[RunPartition, tuple[int, int]] | UnavailableError


class Progress:
    """Polls the claims and logs of a run's partitions, and the owners' reports. Use it as a context manager."""

    def __init__(self, plan: Plan, reports: Reports, process_plan: ProcessPlan | None = None) -> None:
        self._plan, self._process_plan = plan, process_plan
        self.topic_identity = (
            None if process_plan is None else events_topic_identity(process_plan, process_plan.subscriptions)
        )
        self.reports, self._report_silence = reports, ReportSilence()
        self._silence: dict[Partition, float] = {}  # partition → seconds without a report of its owner
        self.takeover = Takeover(plan, process_plan)
        self._resubmissions = 0  # number of resubmitted tasks
        # Partition → its newest submission. Claims and reports from earlier submissions do not count.
        self._min_submissions = dict.fromkeys(run_partitions(plan, process_plan), plan.submission)
        self.owned_partitions: frozenset[RunPartition] = frozenset()
        self._own_claims: dict[RunPartition, Claim] = {}  # partition → the last claim of this run
        # While this run is a standby: the partitions that another run has claimed.
        self._claimed_by_others: set[RunPartition] = set()
        # Partition with undecided commands → (its position, monotonic time at which this position was first seen).
        self._undecided_since: dict[Partition, tuple[int, float]] = {}
        # The identities of open transactions that hide commands, and were already reported.
        self._reported_transactions: set[tuple[str, int, int, int]] = set()
        self._hidden_checked_at = 0.0  # monotonic time of the last search for transactions that hide commands
        subscription_slots = process_plan.claim_slots().items() if process_plan else ()
        claim_slots: dict[RunPartition, ClaimSlot] = dict([*plan.claim_slots().items(), *subscription_slots])
        self.claim_slots = claim_slots.values()
        self._claim_reader, self._poll_lock = ClaimReader(plan.connection, claim_slots), threading.Lock()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        with self._poll_lock:  # a poll in another thread may still be running
            self._claim_reader.__exit__()

    def record_submission(self, partitions: Sequence[RunPartition], submission: int) -> None:
        """Record that these partitions were submitted to Spark again, with this submission number. Claims and reports
        from earlier submissions no longer count.
        """
        self._resubmissions += submission > self._plan.submission
        self._min_submissions.update(dict.fromkeys(partitions, submission))

    def sends_heartbeats(self) -> bool:
        """True if the driver must send heartbeats. A standby run sends none: it would look like an active run."""
        return bool(self.owned_partitions) or self._plan.timing.standby_timeout is None

    def poll_progress(self) -> Snapshot:
        """Poll the brokers, and return the current progress; raises `UnavailableError` if no broker answers."""
        return self.store_answer(self.poll_broker())

    def poll_broker(self) -> BrokerAnswer:
        """Poll the brokers, and store nothing. It may be called in any thread. Raises `UnavailableError` if no broker
        answers.
        """
        with self._poll_lock:
            claims = self._claim_reader.read_claims()
            try:
                return BrokerAnswer(claims, self._claim_reader.read_bounds())
            except UnavailableError as error:
                return BrokerAnswer(claims, error)

    def store_answer(self, answer: BrokerAnswer) -> Snapshot:
        """Store the result of a poll, and return the progress. Raises the error in `answer.bounds`, if there is one."""
        claims, bounds = answer
        self._silence = self._report_silence.observe(self._submission_reports())
        self.takeover.observe_claims(claims)
        for partition, committed in claims.items():
            if committed.claim is not None and committed.claim.run == self._plan.run:
                self._own_claims[partition] = committed.claim
        if self._plan.timing.standby_timeout is not None:
            self._claimed_by_others = {
                partition
                for partition, committed in claims.items()
                if committed.claim and committed.claim.run != self._plan.run
            }
        self.owned_partitions = frozenset(
            partition
            for partition, committed in claims.items()
            if committed.open_claim and committed.open_claim.run == self._plan.run
        )
        if isinstance(bounds, UnavailableError):
            raise bounds
        lags = {
            partition: self._observe_lag(partition, claims[partition].offset or 0, *bounds[partition])
            for partition in self._plan.partitions()
        }
        counts = {
            partition: claim.counts
            for partition, claim in self._own_claims.items()
            if isinstance(partition, Partition)
        }
        unowned_partitions = [
            partition for partition in self._plan.partitions() if not self._is_claimed(partition)
        ]
        return Snapshot(
            polled_at=time.monotonic(),
            counts=counts,
            lag=sum(lags.values()),
            lags=lags,
            reports=self._submission_reports(),
            silent=frozenset(self._submission_reports()) - self._live_reports().keys(),
            unowned=tuple(unowned_partitions),
            resubmissions=self._resubmissions,
            process_progress=self._process_progress(claims, bounds),
        )

    def _process_progress(
        self,
        claims: "dict[RunPartition, CommittedClaim]",
        bounds: "dict[RunPartition, tuple[int, int]]",
    ) -> ProcessProgress | None:
        """Return the progress of the process managers. The groups' committed offsets are copies of their positions."""
        if self._process_plan is None:
            return None
        subscriptions, events_topics = self._process_plan.subscriptions, self._process_plan.events_topics
        positions, waiting_children = {}, set()
        for subscription in subscriptions:
            source, offset = subscription.source, claims[subscription].offset
            if offset is not None:
                positions[subscription] = offset
            elif events_topics[source.topic].is_child_partition(source.partition):
                waiting_children.add(subscription)
        log_ends = {subscription: bounds[subscription][1] for subscription in subscriptions}
        return ProcessProgress(
            polled_at=time.monotonic(),
            positions=positions,
            ends=self._process_plan.end_offsets or log_ends,
            claimed=frozenset(filter(self._is_claimed, subscriptions)),
            waiting_children=frozenset(waiting_children),
            resubmissions=self._resubmissions,
        )

    def _is_claimed(self, partition: RunPartition) -> bool:
        """True if this run has claimed the partition since the partition's last submission."""
        if partition in self._claimed_by_others or partition not in self._own_claims:
            return False
        return self._own_claims[partition].submission >= self._min_submissions[partition]

    def _submission_reports(self) -> dict[Partition, OwnerReport]:
        """Return the latest report of each owner, without reports from earlier submissions."""
        return {
            partition: report
            for partition, report in self.reports.latest_reports().items()
            if report.submission >= self._min_submissions[partition]
        }

    def _live_reports(self) -> dict[Partition, OwnerReport]:
        """Return the latest report of each owner that is still sending reports."""
        timeout = self._plan.timing.report_timeout
        return {
            partition: report
            for partition, report in self._submission_reports().items()
            if self._silence.get(partition, 0.0) < timeout
        }

    def is_silent(self, partitions: Sequence[RunPartition], timeout: float) -> bool:
        """True if no owner of these partitions has sent a report for `timeout` seconds.

        Partitions of process managers do not count. False if no partition is left, or if an owner has not sent its
        first report yet.
        """
        reports = self._submission_reports()
        aggregate_partitions = [partition for partition in partitions if isinstance(partition, Partition)]
        return bool(aggregate_partitions) and all(
            partition in reports and self._silence.get(partition, 0.0) > timeout
            for partition in aggregate_partitions
        )

    def rebuilding_partitions(self) -> list[Partition]:
        """Return the partitions whose owners are building their shards, from a checkpoint or from the log."""
        return [partition for partition, report in self._live_reports().items() if report.step in REBUILDING]

    def is_checkpointing(self) -> bool:
        """True if a task is writing the last checkpoint of a shard whose owner has ended."""
        return any(report.step == "checkpoint" for report in self._live_reports().values())

    def _observe_lag(self, partition: Partition, offset: int, start: int, end: int) -> int:
        """Return the number of undecided commands. Store the position, and the time at which it was first seen.

        `offset`: the committed offset. `start`, `end`: the bounds of the log.
        """
        position = max(start, offset)
        if position >= end:
            self._undecided_since.pop(partition, None)
        elif self._undecided_since.get(partition, (None, 0.0))[0] != position:
            self._undecided_since[partition] = position, time.monotonic()
        return max(0, end - position)

    def new_hiding_transactions(self, timeout: float) -> list[OpenTransaction]:
        """Return the clients' transactions that hide commands, if a position has not moved for `timeout` seconds. Each
        transaction is returned only once.
        """
        now = time.monotonic()
        stuck_partitions = [
            partition
            for partition, (_, observed_at) in self._undecided_since.items()
            if now - observed_at >= timeout
        ]
        if not stuck_partitions or now - self._hidden_checked_at < timeout:
            return []
        self._hidden_checked_at = now
        topic_partitions = [
            (self._plan.topics[name].topics.commands, number) for name, number in stuck_partitions
        ]
        transactions = transactions_hiding_commands(self._plan.connection, topic_partitions)
        new_transactions = [
            transaction
            for transaction in transactions
            if transaction.identity not in self._reported_transactions
        ]
        self._reported_transactions |= {transaction.identity for transaction in new_transactions}
        return new_transactions

    def any_claimed(self, partitions: Sequence[RunPartition]) -> bool:
        """True if this run has claimed any of these partitions since the partition's last submission."""
        return any(map(self._is_claimed, partitions))

    def describe_suspects(self, partitions: Sequence[RunPartition]) -> list[str]:
        """Return a text about the suspects of each of these partitions: the records that may kill workers."""
        return [
            f"{partition.aggregate} partition {partition.number}: {claim.suspects}"
            if isinstance(partition, Partition)
            else f"{partition}: {describe_suspects(claim.suspects)}"
            for partition, claim in sorted(self._own_claims.items(), key=str)
            if partition in partitions and claim.suspects is not None
        ]

    def final_snapshot(self, exits: Sequence[OwnerExit[Any]]) -> Snapshot:
        """Return the last snapshot of the run, with the final counts from the owners' results."""
        try:
            last_snapshot = self.poll_progress()
        except UnavailableError:
            last_snapshot = Snapshot(time.monotonic())
        process_results = [owner_exit for owner_exit in exits if isinstance(owner_exit, ProcessResult)]
        totals = {
            "commands": sum(result.commands for result in process_results),
            "cpu": sum(result.cpu_seconds for result in process_results),
        }
        process_progress = last_snapshot.process_progress
        return Snapshot(
            polled_at=time.monotonic(),
            counts={
                owner_exit.partition: owner_exit.counts
                for owner_exit in exits
                if isinstance(owner_exit, OwnerResult)
            },
            lag=last_snapshot.lag,
            cpu_seconds=sum(owner_exit.cpu_seconds for owner_exit in exits),
            reports=self._submission_reports(),
            resubmissions=self._resubmissions,
            process_progress=None
            if process_progress is None
            else process_progress.with_results(process_results, **totals),
        )
