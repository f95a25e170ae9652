"""The progress of a Spark job: its tasks report to the driver while they read. Spark itself reports only ended tasks.

Progress is measured in offsets, because the end offset is known, and speed in records, because offsets have gaps.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from cqrs_cli.telemetry.datagrams import Address, DatagramSender
from cqrs_cli.telemetry.listener import DatagramListener

#: Seconds between two reports of a task.
REPORT_INTERVAL = 0.2


class TaskReport(Struct, frozen=True, array_like=True):
    """A task's report."""

    task: int  # number of the task
    offsets: int  # offsets read so far
    records: int  # records read so far
    total: int | None = None  # offsets that the task will read; None if the driver knows this number already


class JobProgress(NamedTuple):
    """The progress of a job."""

    done: int  # offsets that were read
    offsets: int  # offsets to read in total
    records: int  # records that were read
    seconds: float  # elapsed time


_decoder = msgspec.msgpack.Decoder(TaskReport)


class TaskReporter(ABC):
    """Reports the start and the progress of a task to the driver. Without an address it sends nothing."""

    def __init__(self, address: Address | None, interval: float = REPORT_INTERVAL) -> None:
        self._interval = interval
        self._sender = None if address is None else DatagramSender(address)
        self._send()

    @abstractmethod
    def current_report(self) -> TaskReport:
        """Return the current report."""

    def report_if_due(self) -> None:
        """Send a report unless the last report is recent. To be called at least several times a second."""
        if time.monotonic() - self._sent_at >= self._interval:
            self._send()

    def _send(self) -> None:
        self._sent_at = time.monotonic()
        if self._sender is not None:
            self._sender.send_body(msgspec.msgpack.encode(self.current_report()))

    def close(self) -> None:
        """Send a last report, and close the socket."""
        if self._sender is not None:
            self._send()
            self._sender.close()


class TaskReports(DatagramListener):
    """Receives the reports of a job's tasks. Use as a context manager."""

    def __init__(self, host: str, planned_offsets: Mapping[int, int | None]) -> None:
        """`planned_offsets`: task → the number of offsets that it will read; None if the task will report the number
        itself. Until its first report, the mean of the other tasks is used for the task.
        """
        self._planned_offsets = planned_offsets
        self._reports: dict[int, TaskReport] = {}
        self._created_at = time.monotonic()
        # The elapsed time counts from the first report, because before it Spark starts workers.
        self._first_report_at: float | None = None
        super().__init__(host)

    def progress(self, ended_tasks: Mapping[int, int]) -> JobProgress:
        """Return the current progress. `ended_tasks`: ended task → the number of its records."""
        reports = dict(self._reports)
        totals = self._totals(reports)
        done_offsets = sum(totals[task] for task in ended_tasks)
        done_offsets += sum(
            min(report.offsets, totals[task]) for task, report in reports.items() if task not in ended_tasks
        )
        # in a replay up to a time, a task's result has fewer records than the task has folded and reported
        record_counts = {task: report.records for task, report in reports.items()}
        record_counts |= {task: max(total, record_counts.get(task, 0)) for task, total in ended_tasks.items()}
        now = time.monotonic()
        # A network may drop all reports. Then the time counts from the creation, once a task has ended.
        started_at = self._first_report_at or (self._created_at if ended_tasks else now)
        return JobProgress(done_offsets, sum(totals.values()), sum(record_counts.values()), now - started_at)

    def _totals(self, reports: Mapping[int, TaskReport]) -> dict[int, int]:
        """Return the number of offsets of each task, as reported or known before; for other tasks, the mean."""
        reported_totals = {task: report.total for task, report in reports.items() if report.total is not None}
        totals = {task: reported_totals.get(task, planned) for task, planned in self._planned_offsets.items()}
        sizes = [total for total in totals.values() if total is not None]
        mean = max(1, sum(sizes) // len(sizes)) if sizes else 1
        return {task: mean if total is None else total for task, total in totals.items()}

    def _receive_report(self, body: bytes) -> None:
        try:
            report = _decoder.decode(body)
        except ValueError:  # a task with another version of this code
            return
        if self._first_report_at is None:
            self._first_report_at = time.monotonic()
        previous_report = self._reports.get(report.task)
        if report.task in self._planned_offsets and (
            previous_report is None or report.offsets >= previous_report.offsets
        ):
            self._reports[report.task] = report


#: Creates a listener, as `TaskReports(host, planned_offsets)` does.
MakeListener = Callable[[str, Mapping[int, int | None]], TaskReports]
