"""The progress of a job. Its tasks report to the driver while they read, because Spark reports on a task only at its
end.

Progress is measured in offsets, because their end is known, and speed in records, because offsets have gaps.
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
TELL_EVERY = 0.2


class TaskReport(Struct, frozen=True, array_like=True):
    """A task's report: the offsets and records so far; `whole`: the number of all its offsets, if only it knows."""

    task: int
    offsets: int
    records: int
    whole: int | None = None


class JobProgress(NamedTuple):
    """The progress of a job: the offsets so far and in total, the records of its tasks, and the elapsed seconds."""

    done: int
    offsets: int
    records: int
    seconds: float


_decoder = msgspec.msgpack.Decoder(TaskReport)


class TaskReporter(ABC):
    """Reports the start and the progress of a task to the driver. Without an address it sends nothing."""

    def __init__(self, to: Address | None, every: float = TELL_EVERY) -> None:
        self._every = every
        self._sender = None if to is None else DatagramSender(to)
        self._say()

    @abstractmethod
    def word(self) -> TaskReport:
        """Return the current report."""

    def tell(self) -> None:
        """Send a report unless the last report is recent. To be called at least several times a second."""
        if time.monotonic() - self._told >= self._every:
            self._say()

    def _say(self) -> None:
        self._told = time.monotonic()
        if self._sender is not None:
            self._sender.send_body(msgspec.msgpack.encode(self.word()))

    def close(self) -> None:
        """Send a last report, and close the socket."""
        if self._sender is not None:
            self._say()
            self._sender.close()


class TaskReports(DatagramListener):
    """Receives the reports of a job's tasks. Use as a context manager."""

    def __init__(self, host: str, spans: Mapping[int, int | None]) -> None:
        """`spans`: the number of offsets for each task; None: the task reports it later, and counts as average until
        then.
        """
        self._spans = spans
        self._words: dict[int, TaskReport] = {}
        self._made = time.monotonic()
        self._began: float | None = None  # when the first task began: until then Spark starts workers
        super().__init__(host)

    def progress(self, ended: Mapping[int, int]) -> JobProgress:
        """Return the current progress. `ended`: the number of records of each task that has ended."""
        words = dict(self._words)
        wholes = self._wholes(words)
        done = sum(wholes[task] for task in ended)
        done += sum(min(word.offsets, wholes[task]) for task, word in words.items() if task not in ended)
        # in a replay up to a time, the total is smaller than the number of folded records
        records = {task: word.records for task, word in words.items()}
        records |= {task: max(total, records.get(task, 0)) for task, total in ended.items()}
        now = time.monotonic()
        began = self._began or (self._made if ended else now)  # a network may drop the reports
        return JobProgress(done, sum(wholes.values()), sum(records.values()), now - began)

    def _wholes(self, words: Mapping[int, TaskReport]) -> dict[int, int]:
        """Return the number of offsets of each task, as reported or known before; for other tasks, the mean."""
        said = {task: word.whole for task, word in words.items() if word.whole is not None}
        known = {task: said.get(task, span) for task, span in self._spans.items()}
        sizes = [whole for whole in known.values() if whole is not None]
        mean = max(1, sum(sizes) // len(sizes)) if sizes else 1
        return {task: mean if whole is None else whole for task, whole in known.items()}

    def _take(self, body: bytes) -> None:
        try:
            word = _decoder.decode(body)
        except ValueError:  # msgspec's errors are ValueErrors: another version of this code
            return
        if self._began is None:
            self._began = time.monotonic()
        before = self._words.get(word.task)
        if word.task in self._spans and (before is None or word.offsets >= before.offsets):
            self._words[word.task] = word


#: Listens on a host, for tasks with these spans.
Listen = Callable[[str, Mapping[int, int | None]], TaskReports]
