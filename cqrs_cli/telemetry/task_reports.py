"""The progress of a job: its tasks tell the driver while they read, for Spark hears of a task only when it ends.

A task's progress is counted in offsets, which say where it ends, and its speed in records: offsets have holes.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from cqrs_cli.telemetry.datagrams import Address, DatagramSender
from cqrs_cli.telemetry.listener import DatagramListener

#: Seconds between two words of a task.
TELL_EVERY = 0.2


class TaskReport(Struct, frozen=True, array_like=True):
    """A task's word: the offsets and records that are done; `whole`: all its offsets, where only the task knows."""

    task: int
    offsets: int
    records: int
    whole: int | None = None


class JobProgress(NamedTuple):
    """The progress of a job: offsets that are done, of how many, the records of its tasks, and the seconds it took."""

    done: int
    offsets: int
    records: int
    seconds: float


_decoder = msgspec.msgpack.Decoder(TaskReport)


class TaskReporter(ABC):
    """Tells the driver that a task begins, and how far it is. Without an address it tells nobody."""

    def __init__(self, to: Address | None, every: float = TELL_EVERY) -> None:
        self._every = every
        self._sender = None if to is None else DatagramSender(to)
        self._say()

    @abstractmethod
    def word(self) -> TaskReport:
        """The word that is true now."""

    def tell(self) -> None:
        """Say how far the task is, unless it has just done so. To be called at least several times a second."""
        if time.monotonic() - self._told >= self._every:
            self._say()

    def _say(self) -> None:
        self._told = time.monotonic()
        if self._sender is not None:
            self._sender.send_body(msgspec.msgpack.encode(self.word()))

    def close(self) -> None:
        """Say a last word, and give the socket back."""
        if self._sender is not None:
            self._say()
            self._sender.close()


class TaskReports(DatagramListener):
    """Takes the words of a job's tasks. Use as a context manager."""

    def __init__(self, host: str, spans: Mapping[int, int | None]) -> None:
        """`spans`: the offsets that each task reads; None: the task will say so, and counts as the others till then."""
        self._spans = spans
        self._words: dict[int, TaskReport] = {}
        self._made = time.monotonic()
        self._began: float | None = None  # when the first task began: until then Spark starts workers
        super().__init__(host)

    def progress(self, ended: Mapping[int, int]) -> JobProgress:
        """The progress now; `ended`: the records of the tasks that have ended, which have done all."""
        words = dict(self._words)
        wholes = self._wholes(words)
        done = sum(wholes[task] for task in ended)
        done += sum(min(word.offsets, wholes[task]) for task, word in words.items() if task not in ended)
        # of a replay to a time, the total has fewer than were folded
        records = {task: word.records for task, word in words.items()}
        records |= {task: max(total, records.get(task, 0)) for task, total in ended.items()}
        now = time.monotonic()
        began = self._began or (self._made if ended else now)  # a network may drop the words
        return JobProgress(done, sum(wholes.values()), sum(records.values()), now - began)

    def _wholes(self, words: Mapping[int, TaskReport]) -> dict[int, int]:
        """All offsets of each task: as it said, or as was known before; of the others the mean of these."""
        said = {task: word.whole for task, word in words.items() if word.whole is not None}
        known = {task: said.get(task, span) for task, span in self._spans.items()}
        sizes = [whole for whole in known.values() if whole is not None]
        mean = max(1, sum(sizes) // len(sizes)) if sizes else 1
        return {task: mean if whole is None else whole for task, whole in known.items()}

    def _take(self, body: bytes) -> None:
        try:
            word = _decoder.decode(body)
        except ValueError:  # msgspec's errors are: another version of this code
            return
        if self._began is None:
            self._began = time.monotonic()
        before = self._words.get(word.task)
        if word.task in self._spans and (before is None or word.offsets >= before.offsets):
            self._words[word.task] = word


#: Listens on a host, for tasks with these spans.
Listen = Callable[[str, Mapping[int, int | None]], TaskReports]
