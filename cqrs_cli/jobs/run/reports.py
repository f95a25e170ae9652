"""The driver's ear: it takes the reports of a run's owners, and keeps the latest of each partition."""

import os
import socket
import threading

from cqrs_cli.owner.plan import Partition
from cqrs_cli.owner.telemetry.report import Address, OwnerReport, read_report

_LARGEST = 65_535


class Reports:
    """Listens at an address of this machine until it is closed. Use as a context manager."""

    def __init__(self, host: str) -> None:
        """`host` is where the workers reach the driver: loopback if they are on this machine."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, 0))
        except OSError:  # the name that the workers know need not be an address of this machine
            self._socket.bind(("", 0))
        self._socket.settimeout(0.2)
        self.address = Address(host, self._socket.getsockname()[1], os.urandom(32))
        self._latest: dict[Partition, OwnerReport] = {}
        self._told: set[tuple[str, str]] = set()
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="reports", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Reports":
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._thread.join()
        self._socket.close()

    def latest(self) -> dict[Partition, OwnerReport]:
        """The last report of each partition that has sent one."""
        return dict(self._latest)

    def fresh_notes(self) -> list[str]:
        """The owners' notes that nobody has asked for yet."""
        return [
            text
            for partition, report in sorted(self.latest().items())
            for text in report.notes
            if self.is_news(partition.aggregate, text)
        ]

    def is_news(self, about: str, text: str) -> bool:
        """True the first time that a partition of this aggregate or process says this."""
        known = (about, text) in self._told
        self._told.add((about, text))
        return not known

    def _listen(self) -> None:
        while not self._closing:
            try:
                datagram = self._socket.recv(_LARGEST)
            except TimeoutError:
                continue
            except OSError:
                return
            report = read_report(datagram, self.address.key)
            if report is not None:
                self._take(report)

    def _take(self, report: OwnerReport) -> None:
        partition = Partition(report.aggregate, report.partition)
        before = self._latest.get(partition)
        if before is None or report.order > before.order:
            self._latest[partition] = report
