"""Ends a task whose aggregate's code does not end, and leaves word of the command in the claim."""

from functools import partial

from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.retire import leave_claim
from cqrs_cli.deciding.supervisor import Supervisor
from cqrs_cli.ownership.trials.slow import tell_slow
from cqrs_cli.ownership.watchdog import CodeWatch, blame


class DecideWatch(CodeWatch):
    """Watches how long a partition's owner has been deciding one command."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__(supervisor.timing, "command", "is being decided")
        self._supervisor = supervisor
        self._shard = supervisor.plan.shard(supervisor.partition)

    def _present(self) -> Record | None:
        owner = self._supervisor.owner
        batch = None if owner is None else owner.session.batch
        return None if batch is None else batch.deciding

    def _report(self, what: str, then: str) -> None:
        self._supervisor.report(what, then)

    def _tell(self, offset: int | None, seconds: float) -> None:
        tell_slow(self._shard, offset, seconds)

    def _condemn(self, offset: int, seconds: int) -> bool:
        supervisor = self._supervisor
        leave = partial(leave_claim, supervisor.plan, supervisor.partition)
        return blame(supervisor.mine, offset, seconds, leave)
