"""The reports of a running supervisor: to the driver, and to `cqrs status` on this machine."""

from cqrs_cli.ownership.monitored_thread import MonitoredThread
from cqrs_cli.telemetry.blocked_file import BlockedFile
from cqrs_cli.telemetry.datagrams import DatagramSender


class Reporter:
    """Sends a supervisor's reports to the driver, and writes the file with the reason why its owner waits."""

    def __init__(self, supervisor: MonitoredThread) -> None:
        self._supervisor, self._blocked = supervisor, BlockedFile(supervisor.folder)
        self._sender = None if supervisor.driver is None else DatagramSender(supervisor.driver)

    def report(self) -> None:
        """Send and write all changes. To be called several times a second.

        An empty report only asks the driver whether the task is to end.
        """
        self._blocked.write_reason(self._supervisor.blocked)
        if self._sender is not None:
            for body in self._supervisor.due_reports() or [b""]:
                self._sender.send_body(body)

    def received_end(self) -> bool:
        """Return True if the driver has answered that the task is to end."""
        return self._sender is not None and self._sender.received_end()

    def close(self) -> None:
        """Report for the last time."""
        self.report()
        if self._sender is not None:
            self._sender.close()
        self._blocked.write_reason("")
