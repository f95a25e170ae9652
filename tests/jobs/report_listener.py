"""The progress reports of a job's tasks, as the driver receives them."""

from collections.abc import Mapping

from cqrs_cli.telemetry.task_reports import JobProgress, TaskReports
from tests.support.waiting import eventually


class RecordingTaskReports(TaskReports):
    """A receiver that records the body of each report."""

    def __init__(self, planned_offsets: Mapping[int, int | None]) -> None:
        self.bodies: list[bytes] = []
        super().__init__("127.0.0.1", planned_offsets)

    def _receive_report(self, body: bytes) -> None:
        super()._receive_report(body)
        self.bodies.append(body)


def progress_after(
    task_reports: RecordingTaskReports, count: int, result: dict[int, int] | None = None
) -> JobProgress:
    """Return the progress after `count` reports."""
    eventually(lambda: len(task_reports.bodies) == count)
    return task_reports.progress(result or {})._replace(seconds=0)
