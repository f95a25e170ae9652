"""Pending children, which wait for a split: the active run continues to decide until they are ready.

Claiming a pending child stops no owner, and a claimed child has folded the visible records of its keys. Claiming a
parent stops the active run. So the children are claimed first: if a parent split earlier, the keys of its children
would have no owner until the children have folded the log.
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

#: Seconds between two polls. It is short, because commands in the new partitions wait for the parents.
_POLL_INTERVAL = 0.1


def wait_for_pending_partitions(
    plan: Plan,
    partition: Partition,
    own_claim: Claim,
    stopping: threading.Event,
    catch_up: Callable[[], object],
    pool: ConsumerPool,
) -> None:
    """If the partition is a parent, wait until all pending children are claimed, or until the active run ends or sends
    no heartbeats. Return at once for any other partition.

    The parent waits for the children of all parents, because the active run ends soon after it has lost one partition.
    This run must have claimed all the children, but several standby runs may share them.

    Raises `LaterClaim` if a later run takes the partition over.
    """
    pending = list(_pending_partitions(plan, partition, pool))
    if not pending:
        return
    is_standby = plan.timing.standby_timeout is not None
    with ClaimReader(plan.connection, {child: plan.claim_slot(child) for child in pending}) as reader:

        def are_claimed(_: Claim | None) -> bool:
            runs = _claimants(reader)
            return own_claim.run in runs and (is_standby or len(runs) == 1)

        waiting_parent = _WaitingParent(own_claim, stopping, catch_up)
        # Twice the timeout, because a false alarm would cost more than a delay.
        heartbeat_timeout, claim_slot = 2 * plan.timing.heartbeat_timeout, plan.claim_slot(partition)
        wait_at_slot(
            plan.connection,
            claim_slot,
            own_claim,
            heartbeat_timeout,
            waiting_parent,
            are_claimed,
            _POLL_INTERVAL,
        )


def may_split(
    plan: Plan, partition: Partition, own_claim: Claim, parent_claim: Claim | None, pool: ConsumerPool
) -> bool:
    """Return True if a standby run may take over a parent in order to split it.

    All pending children must be claimed, some of them by this run. The run of `parent_claim`, which owns the parent,
    must have claimed none of them; otherwise it splits the parent itself.
    """
    claim_slots = {child: plan.claim_slot(child) for child in _pending_partitions(plan, partition, pool)}
    if not claim_slots:
        return False
    with ClaimReader(plan.connection, claim_slots) as reader:
        runs = _claimants(reader)
    return own_claim.run in runs and (parent_claim is None or parent_claim.run not in runs)


def _claimants(reader: ClaimReader[Partition]) -> set[str]:
    """Return the ids of the runs that have claimed the pending children; empty if a child has no claim."""
    try:
        claims = [committed.claim for committed in reader.read_claims().values()]
    except CqrsError:
        return set()
    return {claim.run for claim in claims if claim is not None} if all(claims) else set()


def _pending_partitions(plan: Plan, partition: Partition, pool: ConsumerPool) -> Iterator[Partition]:
    """Yield the pending children of the aggregate, if this partition is to split next."""
    try:
        assigned_keys = plan.read_assigned_keys(partition, pool=pool)
    except CqrsError:
        return  # the owner of the partition reports the error
    if assigned_keys.phase == "settle":
        for number in assigned_keys.pending_partitions():
            yield partition._replace(number=number)


@dataclass(frozen=True, slots=True)
class _WaitingParent:
    """A parent that waits in `wait_at_slot` until its children are ready."""

    own_claim: Claim
    stopping: threading.Event
    catch_up: Callable[[], object]

    def prepare_takeover(self, claim: Claim) -> None:
        if (judgement := judge(self.own_claim, claim)).must_return:
            raise LaterClaim(judgement, claim)
        self.catch_up()

    def is_ready(self) -> bool:
        return True
