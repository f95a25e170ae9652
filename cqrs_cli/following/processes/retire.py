"""Ending a run of processes from outside: fence each partition that is still its own, and leave a terminal claim.

The fence aborts an open transaction at once: until then nobody sees commands behind it. The terminal claim tells a
straggling owner to return quietly.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

from confluent_kafka import KafkaException
from msgspec.structs import replace

from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.owner import ProcessOwner
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import position_key
from cqrs_cli.following.processes.positions import committed_of, recorded_positions
from cqrs_cli.ownership.claim import Claim, parse_claim, terminal

#: Partitions that are retired at once.
_WORKERS = 8


def retire_processes(plan: ProcessPlan) -> None:
    """Retire every partition of the plan; the transaction timeout ends those that cannot be reached."""
    pool = ThreadPoolExecutor(_WORKERS)
    wait([pool.submit(_retire, plan, one) for one in plan.subscriptions], plan.timing.retire_deadline)
    pool.shutdown(wait=False, cancel_futures=True)


def _retire(plan: ProcessPlan, subscription: Subscription) -> None:
    leave_position(plan, subscription, lambda _, claim: terminal(claim, plan.run_epoch, plan.run))


def leave_position(
    plan: ProcessPlan, subscription: Subscription, change: Callable[[int, Claim], Claim | None]
) -> None:
    """Fence a partition's owner and replace its claim by what `change` makes of the position and the claim.

    It is asked before and after the fence; None leaves the claim as it is. Without a broker nothing happens.
    """
    try:
        with ProcessOwner(plan, subscription, plan.claim(subscription, 0)) as owner:
            seen = committed_of(owner.watcher, subscription)
            claim = parse_claim(seen.metadata)
            if claim is None or seen.offset is None or change(seen.offset, claim) is None:
                return
            owner.writer.fence()
            position = recorded_positions(plan.connection, owner.topics).get(
                position_key(subscription.source)
            )
            last = None if position is None else change(position.offset, position.claim)
            if position is not None and last is not None:
                owner.commit([], position.offset, replace(position, claim=last))
    except (KafkaException, CqrsError):
        pass  # fenced by a newer run, or no broker: either way there is nothing left to end
