"""Finds other active runs of the same topics: `--once` leaves their work to them, and a takeover names them."""

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
    """Return the runs that have not released their claims on the plan's partitions, with the number of commands that
    each has decided there.
    """
    commands_by_run: dict[str, int] = {}
    for claim in _open_claims(_partition_claims(plan)).values():
        commands_by_run[claim.run] = commands_by_run.get(claim.run, 0) + claim.counts.commands
    return commands_by_run


def undecided_part(plan: Plan, report: Callable[[str], None], timeout: float = INACTIVE_AFTER) -> Plan | None:
    """Return the part of a `--once` plan that no other run decides: aggregates with undecided commands before the end
    offsets in `plan.targets`, or with due deferred commands that no run resubmits. None if no aggregate is left.

    Waits for an aggregate that another run is deciding, until that run has finished or has decided nothing for
    `timeout` seconds. Raises `UnavailableError`.
    """
    assert plan.targets is not None
    names = wait_for_idle_names(
        lambda: _partition_claims(plan),
        plan.targets,
        lambda partition: partition.aggregate,
        report,
        timeout,
        is_blocked=partial(_is_blocked, plan),
    )
    names |= _names_with_due_commands(plan, set(plan.topics) - names, timeout)
    if not names:
        return None
    targets = {partition: end for partition, end in plan.targets.items() if partition.aggregate in names}
    return replace(
        plan, topics={name: plan.topics[name] for name in plan.topics if name in names}, targets=targets
    )


def unhandled_part(
    plan: ProcessPlan, report: Callable[[str], None], timeout: float = INACTIVE_AFTER
) -> ProcessPlan | None:
    """Return the part of a `--once` plan for processes that no other run handles; waits as `undecided_part` does."""
    assert plan.targets is not None
    if any(committed.offset is None for committed in _subscription_claims(plan).values()):
        return plan  # a new process, which must commit its start position
    names = wait_for_idle_names(
        lambda: _subscription_claims(plan),
        plan.targets,
        lambda subscription: subscription.process,
        report,
        timeout,
    )
    if not names:
        return None
    return replace(
        plan,
        subscriptions=[subscription for subscription in plan.subscriptions if subscription.process in names],
        targets={
            subscription: end for subscription, end in plan.targets.items() if subscription.process in names
        },
    )


def _names_with_due_commands(plan: Plan, names: Iterable[str], timeout: float) -> set[str]:
    """Return the aggregates with a due deferred command; if another run has claimed the partition, the command must
    have been due for `timeout` seconds.
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
    targets: Mapping[_Partition, int],
    name_of: Callable[[_Partition], str],
    report: Callable[[str], None],
    timeout: float,
    clock: Callable[[], float] = time.monotonic,
    is_blocked: Callable[[_Partition, CommittedClaim], bool] = lambda partition, committed: False,
) -> set[str]:
    """Return the names of aggregates or processes with positions before their targets and without an active run.

    Waits for active runs as `undecided_part` does. `is_blocked` returns True for a partition in which no owner could
    continue now: then a run without progress still counts as active.
    """
    # Name → timer of the seconds for which its positions have not moved.
    unchanged_timers: dict[str, UnchangedTimer] = defaultdict(UnchangedTimer)
    is_reported = False
    while True:
        polled_at = clock()
        unfinished_claims = {
            partition: committed
            for partition, committed in read_claims().items()
            if (committed.offset or 0) < targets[partition]
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
    """Return True if the remaining commands are hidden by a client's open transaction."""
    log = PartitionLog(plan.connection, plan.topics[partition.aggregate].topics, partition.number)
    return (committed.offset or 0) >= log.bounds("commands")[1]


def _partition_claims(plan: Plan) -> dict[Partition, CommittedClaim]:
    """Return the committed claims of the partitions of aggregates."""
    return committed_claims(plan.connection, plan.claim_slots())


def _subscription_claims(plan: ProcessPlan) -> dict[Subscription, CommittedClaim]:
    """Return the committed claims of the subscriptions of processes."""
    return committed_claims(plan.connection, plan.claim_slots())


def _open_claims(committed_claims: Mapping[_Partition, CommittedClaim]) -> dict[_Partition, Claim]:
    """Return the claims that no run has released."""
    return {
        partition: claim
        for partition, committed in committed_claims.items()
        if (claim := committed.open_claim) is not None
    }
