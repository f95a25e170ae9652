"""Pending children, which wait for a split: the active run continues to decide until they are ready.

The claim of a pending child stops no owner, and by then the child has folded the visible records of its keys. The claim
of a parent stops the active run. If the parent split first, the child's keys would have no owner while the child folds.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.ownership.claim import Claim, judge
from cqrs_cli.ownership.committed_claims import ClaimReader
from cqrs_cli.ownership.signals import LaterClaim
from cqrs_cli.ownership.standby import wait_at_slot

#: Seconds between two polls: commands in the new partitions wait for the parents.
_LOOK_EVERY = 0.1


def wait_for_pending_partitions(
    plan: Plan,
    partition: Partition,
    mine: Claim,
    stopping: threading.Event,
    meanwhile: Callable[[], object],
    lender: ConsumerPool,
) -> None:
    """If the partition is a parent, wait until the run has claimed all pending children, or until the active run has
    ended or is silent. Return at once for any other partition. The parent waits for all children, because the active
    run ends soon after it has lost one partition. Several standby runs may have claimed a part of the children each.

    Raises `LaterClaim` if a later run takes the partition over.
    """
    unborn = list(_pending_partitions(plan, partition, lender))
    if not unborn:
        return
    stands_by = plan.timing.standby_timeout is not None
    with ClaimReader(plan.connection, {one: plan.claim_slot(one) for one in unborn}) as reader:

        def are_there(_: Claim | None) -> bool:
            runs = _claimants(reader)
            return mine.run in runs and (stands_by or len(runs) == 1)

        who = _Parent(mine, stopping, meanwhile)
        # Twice the time: a false alarm would cost more than a delay.
        silence, seat = 2 * plan.timing.heartbeat_timeout, plan.claim_slot(partition)
        wait_at_slot(plan.connection, seat, mine, silence, who, are_there, _LOOK_EVERY)


def may_split(
    plan: Plan, partition: Partition, mine: Claim, claim: Claim | None, lender: ConsumerPool
) -> bool:
    """Return True if a standby run may take over a parent in order to split it: all pending children are claimed, some
    of them by this run, and the run of the parent's `claim` has none of them, so it does not split.
    """
    unborn = {one: plan.claim_slot(one) for one in _pending_partitions(plan, partition, lender)}
    if not unborn:
        return False
    with ClaimReader(plan.connection, unborn) as reader:
        runs = _claimants(reader)
    return mine.run in runs and (claim is None or claim.run not in runs)


def _claimants(reader: ClaimReader[Partition]) -> set[str]:
    """Return the runs that have claimed the pending children; empty if a child has no claim."""
    try:
        found = [one.claim for one in reader.read_claims().values()]
    except CqrsError:
        return set()
    return {claim.run for claim in found if claim is not None} if all(found) else set()


def _pending_partitions(plan: Plan, partition: Partition, lender: ConsumerPool) -> Iterator[Partition]:
    """Yield the pending children of the aggregate, if this partition is to split next."""
    try:
        holding = plan.read_assigned_keys(partition, pool=lender)
    except CqrsError:
        return  # its owner will meet the error, too
    if holding.phase == "settle":
        for number in holding.lineage.unfinished_partitions(holding.topic_partitions):
            if holding.lineage.phase(number, holding.topic_partitions) == "wait":
                yield partition._replace(number=number)


@dataclass(frozen=True, slots=True)
class _Parent:
    """A parent, as `wait_at_slot` uses it: it gives the active run time until the children are ready."""

    mine: Claim
    stopping: threading.Event
    meanwhile: Callable[[], object]

    def prepare_takeover(self, claim: Claim) -> None:
        if (judgement := judge(self.mine, claim)).must_return:
            raise LaterClaim(judgement, claim)
        self.meanwhile()

    def is_ready(self) -> bool:
        return True
