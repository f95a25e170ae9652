"""Ends a task in which a process's `react` does not end, and leaves word of the event in the claim."""

from functools import partial

from cqrs_cli.core.messages.record import Record
from cqrs_cli.following.processes.retire import leave_position
from cqrs_cli.following.processes.supervisor import ProcessSupervisor
from cqrs_cli.ownership.watchdog import CodeWatch, blame


class ReactWatch(CodeWatch):
    """Watches how long a process has been reacting to one event."""

    def __init__(self, supervisor: ProcessSupervisor) -> None:
        super().__init__(supervisor.timing, "event", "is being reacted to")
        self._supervisor = supervisor

    def _present(self) -> Record | None:
        loop = self._supervisor.loop
        return None if loop is None else loop.reacting

    def _report(self, what: str, then: str) -> None:
        self._supervisor.report(what, then)

    def _tell(self, offset: int | None, seconds: float) -> None:
        """The task's log has it: a process has no folder on this machine."""

    def _condemn(self, offset: int, seconds: int) -> bool:
        supervisor = self._supervisor
        leave = partial(leave_position, supervisor.plan, supervisor.subscription)
        return blame(supervisor.mine, offset, seconds, leave)
