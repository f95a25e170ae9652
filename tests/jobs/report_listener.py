"""The progress reports of a job's tasks, as the driver receives them."""

from collections.abc import Mapping

from cqrs_cli.telemetry.task_reports import JobProgress, TaskReports
from tests.support.waiting import eventually


class Heard(TaskReports):
    """A receiver that keeps all reports."""

    def __init__(self, spans: Mapping[int, int | None]) -> None:
        self.all: list[bytes] = []
        super().__init__("127.0.0.1", spans)

    def _receive(self, body: bytes) -> None:
        super()._receive(body)
        self.all.append(body)


def told(words: Heard, count: int, result: dict[int, int] | None = None) -> JobProgress:
    """Return the progress after `count` reports."""
    eventually(lambda: len(words.all) == count)
    return words.progress(result or {})._replace(seconds=0)
