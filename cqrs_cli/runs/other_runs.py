"""Other active runs of the same topics: `--once` leaves their work to them, and a takeover names them."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from cqrs_cli.client.queries.deferred import has_due
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.committed_claims import CommittedClaim, UnchangedTimer, standings

#: Seconds without a decision after which a run with open claims counts as inactive.
PATIENCE = 5.0

#: Seconds between two polls.
_INTERVAL = 0.25


def others_at_work(plan: Plan) -> dict[str, int]:
    """Return the runs that have not released their claims on the plan's partitions, with the number of commands that
    each has decided there.
    """
    found: dict[str, int] = {}
    for claim in _open_claims(_decided(plan)).values():
        found[claim.run] = found.get(claim.run, 0) + claim.counts.commands
    return found


def left_to_decide(plan: Plan, note: Callable[[str], None], patience: float = PATIENCE) -> Plan | None:
    """Return the part of a `--once` plan that no other run decides: aggregates with commands before the targets, or
    with due deferred commands that no run resubmits. None if no aggregate is left.

    Waits for an aggregate that another run is deciding, until that run has finished or has decided nothing for
    `patience` seconds. Raises `UnavailableError`.
    """
    assert plan.targets is not None
    names = names_left(lambda: _decided(plan), plan.targets, lambda at: at.aggregate, note, patience)
    names |= _due(plan, set(plan.topics) - names, patience)
    if not names:
        return None
    targets = {at: end for at, end in plan.targets.items() if at.aggregate in names}
    return replace(
        plan, topics={name: plan.topics[name] for name in plan.topics if name in names}, targets=targets
    )


def left_to_react(
    plan: ProcessPlan, note: Callable[[str], None], patience: float = PATIENCE
) -> ProcessPlan | None:
    """Return the part of a `--once` plan for processes that no other run handles; waits as `left_to_decide` does."""
    assert plan.targets is not None
    if any(one.offset is None for one in _heard(plan).values()):
        return plan  # a new process, which must commit its start position
    names = names_left(lambda: _heard(plan), plan.targets, lambda at: at.process, note, patience)
    if not names:
        return None
    return replace(
        plan,
        subscriptions=[at for at in plan.subscriptions if at.process in names],
        targets={at: end for at, end in plan.targets.items() if at.process in names},
    )


def _due(plan: Plan, names: Iterable[str], patience: float) -> set[str]:
    """Return the aggregates with a due deferred command; if another run has claimed the partition, the command must
    have been due for `patience` seconds.
    """
    topics = {name: plan.topics[name] for name in names}
    now = time.time()
    found: set[str] = set()
    for at, one in _decided(replace(plan, topics=topics)).items():
        if at.aggregate not in found:
            moment = now - patience if one.open_claim else now
            log = PartitionLog(plan.connection, plan.topics[at.aggregate].topics, at.number)
            if has_due(log, int(moment * 1000)):
                found.add(at.aggregate)
    return found


_Place = TypeVar("_Place", Partition, Subscription)


def names_left(
    look: Callable[[], Mapping[_Place, CommittedClaim]],
    targets: Mapping[_Place, int],
    named: Callable[[_Place], str],
    note: Callable[[str], None],
    patience: float,
    clock: Callable[[], float] = time.monotonic,
) -> set[str]:
    """Return the names with partitions before their targets and without an active run; waits as `left_to_decide`."""
    resting: dict[str, UnchangedTimer] = defaultdict(
        UnchangedTimer
    )  # by name: how long its positions have not moved
    noted = False
    while True:
        asked = clock()
        left = {at: one for at, one in look().items() if (one.offset or 0) < targets[at]}
        answered = clock()
        names, at_work, working = {named(at) for at in left}, _open_claims(left), False
        for name in names:
            positions = [(at, one.offset) for at, one in left.items() if named(at) == name]
            rests = resting[name].lasts(positions, asked, answered)
            if all(at in at_work for at, _ in positions) and rests < patience:
                working = True
        if not working:
            return names
        if not noted:
            runs = ", ".join(sorted({claim.run for claim in at_work.values()}))
            note(f"run {runs} is at work: waiting until it has decided what is there")
            noted = True
        time.sleep(_INTERVAL)


def _decided(plan: Plan) -> dict[Partition, CommittedClaim]:
    return standings(plan.connection, plan.seats())


def _heard(plan: ProcessPlan) -> dict[Subscription, CommittedClaim]:
    return standings(plan.connection, plan.seats())


def _open_claims(found: Mapping[_Place, CommittedClaim]) -> dict[_Place, Claim]:
    return {at: claim for at, one in found.items() if (claim := one.open_claim) is not None}
