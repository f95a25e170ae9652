"""Finds other active runs of the same topics. A run with `--once` leaves their work to them, and a takeover reports
them.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from cqrs_cli.client.queries.deferred import has_due
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.committed_claims import CommittedClaim, UnchangedTimer, committed_claims

#: Seconds without a decision after which a run with open claims counts as inactive.
INACTIVE_AFTER = 5.0

#: Seconds between two polls.
_INTERVAL = 0.25


def active_runs(plan: Plan) -> dict[str, int]:
    """Return run → number of its decided commands, for each run with an open claim on a partition of the plan."""
    commands_by_run: dict[str, int] = {}
    for claim in _open_claims(_partition_claims(plan)).values():
        commands_by_run[claim.run] = commands_by_run.get(claim.run, 0) + claim.counts.commands
    return commands_by_run


def undecided_part(plan: Plan, report: Callable[[str], None], timeout: float = INACTIVE_AFTER) -> Plan | None:
    """Return the part of a `--once` plan that this run must do; None if other runs have done everything.

    This run must decide for an aggregate that has undecided commands before `plan.end_offsets` which no other run
    decides, or due deferred commands which no other run resubmits.

    If another run is deciding for an aggregate, wait until that run has finished, or has decided nothing for `timeout`
    seconds. Raises `UnavailableError`.
    """
    assert plan.end_offsets is not None
    names = wait_for_idle_names(
        lambda: _partition_claims(plan),
        plan.end_offsets,
        lambda partition: partition.aggregate,
        report,
        timeout,
        is_blocked=partial(_is_blocked, plan),
    )
    names |= _names_with_due_commands(plan, set(plan.topics) - names, timeout)
    if not names:
        return None
    end_offsets = {
        partition: end for partition, end in plan.end_offsets.items() if partition.aggregate in names
    }
    return replace(
        plan,
        topics={name: plan.topics[name] for name in plan.topics if name in names},
        end_offsets=end_offsets,
    )


def unhandled_part(
    plan: ProcessPlan, report: Callable[[str], None], timeout: float = INACTIVE_AFTER
) -> ProcessPlan | None:
    """Return the part of a process plan that this run must do; None if other runs have done everything.

    Waits for the process managers of other runs, as `undecided_part` waits for aggregates.
    """
    assert plan.end_offsets is not None
    if any(committed.offset is None for committed in _subscription_claims(plan).values()):
        return plan  # a new process manager, which must commit its start position
    names = wait_for_idle_names(
        lambda: _subscription_claims(plan),
        plan.end_offsets,
        lambda subscription: subscription.process,
        report,
        timeout,
    )
    if not names:
        return None
    return replace(
        plan,
        subscriptions=[subscription for subscription in plan.subscriptions if subscription.process in names],
        end_offsets={
            subscription: end
            for subscription, end in plan.end_offsets.items()
            if subscription.process in names
        },
    )


def _names_with_due_commands(plan: Plan, names: Iterable[str], timeout: float) -> set[str]:
    """Return the aggregates among `names` with a due deferred command.

    If another run has claimed the command's partition, the command counts only if it has been due for `timeout`
    seconds, because the other run may be about to resubmit it.
    """
    topics = {name: plan.topics[name] for name in names}
    now = time.time()
    names_with_due: set[str] = set()
    for partition, committed in _partition_claims(replace(plan, topics=topics)).items():
        if partition.aggregate not in names_with_due:
            due_before = now - timeout if committed.open_claim else now
            log = PartitionLog(plan.connection, plan.topics[partition.aggregate].topics, partition.number)
            if has_due(log, int(due_before * 1000)):
                names_with_due.add(partition.aggregate)
    return names_with_due


_Partition = TypeVar("_Partition", Partition, Subscription)


def wait_for_idle_names(
    read_claims: Callable[[], Mapping[_Partition, CommittedClaim]],
    end_offsets: Mapping[_Partition, int],
    name_of: Callable[[_Partition], str],
    report: Callable[[str], None],
    timeout: float,
    clock: Callable[[], float] = time.monotonic,
    is_blocked: Callable[[_Partition, CommittedClaim], bool] = lambda partition, committed: False,
) -> set[str]:
    """Return the names of the aggregates or process managers that are not finished, and that no active run works on.

    Waits for active runs, as `undecided_part` does. `end_offsets`: partition → the offset that its position must reach.
    `is_blocked`: returns True for a partition in which no owner can make progress now, so that a run without progress
    still counts as active.
    """
    # Name → timer of the seconds for which the positions of this aggregate or process manager have not moved.
    unchanged_timers: dict[str, UnchangedTimer] = defaultdict(UnchangedTimer)
    is_reported = False
    while True:
        polled_at = clock()
        unfinished_claims = {
            partition: committed
            for partition, committed in read_claims().items()
            if (committed.offset or 0) < end_offsets[partition]
        }
        answered_at = clock()
        names = {name_of(partition) for partition in unfinished_claims}
        open_claims, is_active = _open_claims(unfinished_claims), False
        for name in names:
            positions = [
                (partition, committed.offset)
                for partition, committed in unfinished_claims.items()
                if name_of(partition) == name
            ]
            unchanged_seconds = unchanged_timers[name].seconds_unchanged(positions, polled_at, answered_at)
            if all(partition in open_claims for partition, _ in positions):
                is_active |= unchanged_seconds < timeout or all(
                    is_blocked(partition, unfinished_claims[partition]) for partition, _ in positions
                )
        if not is_active:
            return names
        if not is_reported:
            runs = ", ".join(sorted({claim.run for claim in open_claims.values()}))
            report(f"run {runs} is active: waiting until it has finished")
            is_reported = True
        time.sleep(_INTERVAL)


def _is_blocked(plan: Plan, partition: Partition, committed: CommittedClaim) -> bool:
    """Return True if an open transaction of a client hides the remaining commands."""
    log = PartitionLog(plan.connection, plan.topics[partition.aggregate].topics, partition.number)
    return (committed.offset or 0) >= log.bounds("commands")[1]


def _partition_claims(plan: Plan) -> dict[Partition, CommittedClaim]:
    """Return the committed claim of each partition of the plan's aggregates."""
    return committed_claims(plan.connection, plan.claim_slots())


def _subscription_claims(plan: ProcessPlan) -> dict[Subscription, CommittedClaim]:
    """Return the committed claim of each subscription of the plan's process managers."""
    return committed_claims(plan.connection, plan.claim_slots())


def _open_claims(committed_claims: Mapping[_Partition, CommittedClaim]) -> dict[_Partition, Claim]:
    """Return the claims that no run has released."""
    return {
        partition: claim
        for partition, committed in committed_claims.items()
        if (claim := committed.open_claim) is not None
    }
