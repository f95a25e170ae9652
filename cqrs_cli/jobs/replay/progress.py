"""How far a replay is: its tasks tell the driver while they read and fold, for Spark hears of a task only when it ends.

A partition's progress is counted in offsets, which say where it ends, and its speed in events: offsets have holes.
Events that wait on disk count as not read until their turn comes. Where several tasks read a partition, each one folds
its part of the events.
"""

import time
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from cqrs_cli.jobs.engine.ear import Ear
from cqrs_cli.owner.telemetry.datagrams import Address, DatagramSender

#: Seconds between two words of a task.
TELL_EVERY = 0.2


class TaskWord(Struct, frozen=True, array_like=True):
    """A task's word: the offsets that are done, and the events it has folded."""

    task: int
    offsets: int
    events: int


class ReplayProgress(NamedTuple):
    """How far a replay is: offsets that are done, of how many, the events of its tasks, and the seconds they took."""

    done: int
    offsets: int
    events: int
    seconds: float


_decoder = msgspec.msgpack.Decoder(TaskWord)


class TaskTeller:
    """Tells the driver that a task begins, and how far it is. Without an address it tells nobody."""

    def __init__(self, to: Address | None, task: int, parts: int, start: int) -> None:
        """`parts`: the number of tasks that read the partition, each from the offset `start` on."""
        self._sender = None if to is None else DatagramSender(to)
        self._task, self._parts, self._start = task, parts, start
        self._offsets = self._events = 0  # that were read
        self._waiting = 0
        self._tell()

    def read(self, events: int, at: int, waiting: int) -> None:
        """Say that some more events were read, the last one at the offset `at`, and how many are on disk now."""
        self._events += events
        self._offsets = at + 1 - self._start
        self.wait(waiting)

    def wait(self, waiting: int) -> None:
        """Say how many events are on disk now."""
        self._waiting = waiting
        if time.monotonic() - self._told >= TELL_EVERY:
            self._tell()

    def _tell(self) -> None:
        self._told = time.monotonic()
        if self._sender is None:
            return
        done = max(0.0, 1 - self._waiting * self._parts / max(1, self._events))  # of what was read
        word = TaskWord(self._task, int(self._offsets * done), int(self._events * done / self._parts))
        self._sender.send_body(msgspec.msgpack.encode(word))

    def close(self) -> None:
        """Say a last word, and give the socket back."""
        if self._sender is not None:
            self._tell()
            self._sender.close()


class ReplayWords(Ear):
    """Takes the words of a replay's tasks. Use as a context manager."""

    def __init__(self, host: str, spans: Mapping[int, int]) -> None:
        """`spans`: the offsets that each task reads."""
        self._spans = spans
        self._words: dict[int, TaskWord] = {}
        self._made = time.monotonic()
        self._began: float | None = None  # when the first task began: until then Spark starts workers
        super().__init__(host)

    def progress(self, ended: Mapping[int, int]) -> ReplayProgress:
        """The progress now; `ended`: the events of the tasks that have ended, which have done all."""
        words = dict(self._words)
        done = sum(self._spans[task] for task in ended)
        done += sum(word.offsets for task, word in words.items() if task not in ended)
        # of a replay to a time, the total has fewer than were folded
        events = {task: word.events for task, word in words.items()}
        events |= {task: max(total, events.get(task, 0)) for task, total in ended.items()}
        now = time.monotonic()
        began = self._began or (self._made if ended else now)  # a network may drop the words
        return ReplayProgress(done, sum(self._spans.values()), sum(events.values()), now - began)

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
