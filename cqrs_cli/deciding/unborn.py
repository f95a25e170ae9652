"""The partitions that wait for a split: until they are ready for it, the run at work decides on.

They stop nobody when they claim, and have folded by then what is visible of their keys. A parent stops the run at work.
If it split before, the keys of a child would have no owner while that one folds.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.lending import Lender
from cqrs_cli.ownership.claim import Claim, judge
from cqrs_cli.ownership.signals import Superseded
from cqrs_cli.ownership.standby import await_seat
from cqrs_cli.ownership.standing import Standings

#: Seconds between two looks: what is sent to the new partitions waits for their parents.
_LOOK_EVERY = 0.1


def await_unborn(
    plan: Plan,
    partition: Partition,
    mine: Claim,
    stopping: threading.Event,
    meanwhile: Callable[[], object],
    lender: Lender,
) -> None:
    """Return at once but for a parent. A parent waits until the run has claimed all that wait for a split, or until the
    run at work has ended, or is silent. All, since that run is over soon after it has lost one partition.

    Raises `Superseded` if a later run takes the partition over.
    """
    unborn = {one: plan.seat(one) for one in _unborn(plan, partition, lender)}
    if not unborn:
        return
    with Standings(plan.connection, unborn) as reader:

        def are_there() -> bool:
            try:
                found = reader.look().values()
            except CqrsError:
                return False
            return all(one.claim is not None and one.claim.run == mine.run for one in found)

        who = _Parent(mine, stopping, meanwhile)
        # Twice the time: to be wrong would cost more than to be late.
        silence, seat = 2 * plan.timing.beats_for, plan.seat(partition)
        await_seat(plan.connection, seat, mine, silence, who, are_there, _LOOK_EVERY)


def _unborn(plan: Plan, partition: Partition, lender: Lender) -> Iterator[Partition]:
    """The partitions that wait for a split, if this one is to split next."""
    try:
        holding = plan.read_holding(partition, lender=lender)
    except CqrsError:
        return  # its owner will see
    if holding.phase == "settle":
        for number in holding.lineage.unfinished(holding.there):
            if holding.lineage.phase(number, holding.there) == "wait":
                yield partition._replace(number=number)


@dataclass(frozen=True, slots=True)
class _Parent:
    """A partition that leaves the run at work the time."""

    mine: Claim
    stopping: threading.Event
    meanwhile: Callable[[], object]

    def stand_by(self, claim: Claim) -> None:
        if (judgement := judge(self.mine, claim)).ends:
            raise Superseded(judgement, claim)
        self.meanwhile()

    def is_fit(self) -> bool:
        return True
