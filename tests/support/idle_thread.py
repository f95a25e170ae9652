"""A partition's thread that a test calls."""

from cqrs_cli.ownership.monitored_thread import MonitoredThread


class IdleThread(MonitoredThread):
    """A partition's thread that does nothing."""

    label = "counter partition 0"

    def current_record(self) -> None: ...

    def replace_claim(self, change: object) -> None: ...
