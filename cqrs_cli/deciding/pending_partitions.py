"""The takeover of a parent waits for the pending children, so that the active run decides until they are ready.

A pending child is a new partition whose parent has not split. A run that claims a pending child stops no other owner,
and the claim shows that the child has folded the visible records of its keys. A run that claims a parent stops the
active run, and then splits the parent. If a run claimed the parent first, the keys of the children would have no owner
until the children had folded the log.
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

#: Seconds between two polls of the children's claims. It is short, because commands in the new partitions wait for the
#: splits of the parents.
_POLL_INTERVAL = 0.1


def wait_for_pending_partitions(
    plan: Plan,
    partition: Partition,
    own_claim: Claim,
    stopping: threading.Event,
    catch_up: Callable[[], object],
    pool: ConsumerPool,
) -> None:
    """If `partition` is a parent, wait until all pending children are claimed, or until the active run ends or sends
    no heartbeats. Return at once for any other partition.

    The owner of each parent waits for the children of all parents, because the active run ends soon after it has lost
    one partition. All the children must be claimed by this run; several standby runs may share them.

    Raises `LaterClaim` if a later run takes the partition over.
    """
    children = list(_pending_partitions(plan, partition, pool))
    if not children:
        return
    is_standby = plan.timing.standby_timeout is not None
    with ClaimReader(plan.connection, {child: plan.claim_slot(child) for child in children}) as reader:

        def are_children_claimed(_: Claim | None) -> bool:
            runs = _claiming_runs(reader)
            return own_claim.run in runs and (is_standby or len(runs) == 1)

        parent = _WaitingParent(own_claim, stopping, catch_up)
        # Twice the timeout of a standby run, because a takeover too early would cost more than a delay.
        heartbeat_timeout, claim_slot = 2 * plan.timing.heartbeat_timeout, plan.claim_slot(partition)
        wait_at_slot(
            plan.connection,
            claim_slot,
            own_claim,
            heartbeat_timeout,
            parent,
            are_children_claimed,
            _POLL_INTERVAL,
        )


def can_take_over_to_split(
    plan: Plan, partition: Partition, own_claim: Claim, parent_claim: Claim | None, pool: ConsumerPool
) -> bool:
    """Return True if a standby run may take over the parent `partition` in order to split it.

    Each pending child must be claimed, and at least one by this run. The run that owns the parent (`parent_claim`) must
    have claimed no child: a run that has claimed a child will split the parent itself.
    """
    claim_slots = {child: plan.claim_slot(child) for child in _pending_partitions(plan, partition, pool)}
    if not claim_slots:
        return False
    with ClaimReader(plan.connection, claim_slots) as reader:
        runs = _claiming_runs(reader)
    return own_claim.run in runs and (parent_claim is None or parent_claim.run not in runs)


def _claiming_runs(reader: ClaimReader[Partition]) -> set[str]:
    """Return the ids of the runs that have claimed the pending children; empty if a child has no claim."""
    try:
        claims = [committed.claim for committed in reader.read_claims().values()]
    except CqrsError:
        return set()
    return {claim.run for claim in claims if claim is not None} if all(claims) else set()


def _pending_partitions(plan: Plan, partition: Partition, pool: ConsumerPool) -> Iterator[Partition]:
    """Yield all pending children of the aggregate if this partition is a parent that has to split; else nothing."""
    try:
        assigned_keys = plan.read_assigned_keys(partition, pool=pool)
    except CqrsError:
        return  # the owner of the partition reports the error
    if assigned_keys.phase == "settle":
        for number in assigned_keys.pending_partitions():
            yield partition._replace(number=number)


@dataclass(frozen=True, slots=True)
class _WaitingParent:
    """A parent that waits for its children: the callbacks of `wait_at_slot`."""

    own_claim: Claim
    stopping: threading.Event
    catch_up: Callable[[], object]

    def prepare_takeover(self, claim: Claim) -> None:
        if (judgement := judge(self.own_claim, claim)).must_return:
            raise LaterClaim(judgement, claim)
        self.catch_up()

    def is_ready(self) -> bool:
        return True
