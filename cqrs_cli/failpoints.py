"""Failpoints: named places in the protocols at which tests kill, stop or delay an owner.

    CQRS_FAILPOINT=POINT:NTH:ACTION[@FILE]      e.g. commit.sent:5:kill

The action happens when the owners of a process reach POINT for the NTH time. With FILE only the first process that
reaches it acts, and writes its process id to FILE. ACTION is `kill` (SIGKILL), `stop` (SIGSTOP) or `wait`
(only this owner waits, until FILE is removed).

The points `grow.*` are in `cqrs repartition`, an operator's command.

If the variable is unset, a failpoint costs one comparison. Failpoints are passed once for each batch, never for each
command.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from cqrs_cli.errors import ConfigurationError

VARIABLE = "CQRS_FAILPOINT"

#: Each failpoint with the state of the protocol there, in the order of the protocol. docs/verification.md links here.
POINTS = {
    "shard.opening": "the shard exists; its marker does not yet name it as in use",
    "checkpoint.fetched": "the data of a checkpoint is downloaded and checked; the shard is not replaced yet",
    "checkpoint.installed": "the checkpoint has replaced the shard, which has no marker yet",
    "fence.before": "all visible records are folded",
    "fence.after": "the previous owner is fenced, and its open transaction is ended",
    "claim.before": "the committed claim is checked; the new claim is not committed yet",
    "claim.after": "the new claim is committed",
    "position.before": "the position is checked; it is not committed yet",
    "position.after": "the position is committed",
    "recover.taken": "the shard has the new owner's token; nothing is folded yet",
    "recover.events": "events are folded, outcomes are not",
    "recover.deferred": "deferred commands are folded, outcomes are not",
    "recover.after": "the shard is up to date with the log",
    "decide.before": "a batch is polled",
    "decide.after": "the first piece of the batch is decided; no transaction has begun",
    "produce.first": "the broker has the events of the first piece, but not its outcomes",
    "produce.after": "all records are passed to the producer",
    "offsets.after": "the position is part of the transaction",
    "flush.after": "the broker has all records",
    "commit.sent": "the commit request is sent; its response is not read",
    "commit.after": "the commit is acknowledged; the state cache is not updated yet",
    "grow.lineage": "the partition history exists, without the request to repartition",
    "grow.wished": "the partition history has the request; no topic has new partitions yet",
    "grow.topic": "one more topic has its new partitions; the commands topic is the last",
    "forward.said": "the broker has the forwarded commands; their outcomes are not committed",
    "split.before": "all commands from before the repartitioning are decided; no key is handed over yet",
    "split.after": "the split is committed; the owner has not read the response",
    "adopt.chunk": "some of the inherited deferred commands are committed to the child's own topic",
    "adopt.before_begun": "the last inherited deferred commands are produced; the child's activation record is not",
    "again.before": "the due commands are chosen; no transaction has begun",
    "again.said": "the due commands are resubmitted; their entries are not updated yet",
    "again.noted": "the updated entries of the resubmitted commands are produced",
    "upkeep.noted": "re-encrypted data keys, or a record that lets the keys topic be compacted, are produced",
    "apply.before": "the batch is committed to Kafka, but not to LMDB",
    "apply.inside": "the LMDB transaction is open",
    "apply.after": "the batch is committed to LMDB",
    "checkpoint.copied": "the shard is copied; nothing is uploaded yet",
    "checkpoint.uploaded": "the data of a checkpoint is uploaded, its manifest is not",
    "checkpoint.written": "the manifest of a checkpoint is written; old checkpoints are not removed yet",
    "shard.closing": "the owner has ended; the shard is not synced yet",
    "shard.closed": "the shard is synced and closed; its marker is not written yet",
}
ACTIONS = ("kill", "stop", "wait")


class _ArmedFailpoint:
    """The failpoint of `CQRS_FAILPOINT`. It acts when it is reached for the `nth` time."""

    def __init__(self, point: str, nth: int, action: str, file: Path | None) -> None:
        self.point, self._nth, self._action, self._file = point, nth, action, file
        self._count = count(1)

    def is_due(self, point: str) -> bool:
        return point == self.point and next(self._count) == self._nth

    def act(self) -> None:
        if self._file is not None and not _is_first(self._file):
            return
        if self._action == "wait":
            while self._file is not None and self._file.exists():
                time.sleep(0.01)
            return
        # The signal goes to this thread, which stops here. If the signal went to the process, this thread would run on
        # for a moment, and might stop while it holds a lock.
        number = signal.SIGKILL if self._action == "kill" else signal.SIGSTOP
        signal.pthread_kill(threading.get_ident(), number)


class _CallingFailpoint(_ArmedFailpoint):
    """The failpoint of a test that runs owners in its own process: it calls a function, at most `times` times."""

    def __init__(self, point: str, act: Callable[[], object], times: int) -> None:
        super().__init__(point, times, "", None)
        self._call = act

    def is_due(self, point: str) -> bool:
        return point == self.point and next(self._count) <= self._nth

    def act(self) -> None:
        self._call()


_armed: _ArmedFailpoint | None = None


def arm() -> None:
    """Arm the failpoint that the environment variable names; raises `ConfigurationError` for a malformed value."""
    global _armed
    if not isinstance(_armed, _CallingFailpoint):
        _armed = _parse(os.environ.get(VARIABLE, ""))


@contextmanager
def call_at(point: str, act: Callable[[], object], times: int = 1) -> Iterator[None]:
    """Inside the block, call `act` when an owner of this process reaches the point, at most `times` times."""
    global _armed
    previous, _armed = _armed, _CallingFailpoint(point, act, times)
    try:
        yield
    finally:
        _armed = previous


def environment() -> dict[str, str]:
    """Return the environment variables for workers, empty if no failpoint is set; raises `ConfigurationError`."""
    text = os.environ.get(VARIABLE, "")
    return {VARIABLE: text} if _parse(text) else {}


def armed(point: str) -> bool:
    """True if this point is armed in this process."""
    return _armed is not None and _armed.point == point


def reached(point: str, flush: Callable[[], object] | None = None) -> None:
    """Act if the point is due. Before that, `flush` sends the owner's earlier work to the broker."""
    if _armed is not None and _armed.is_due(point):
        if flush is not None:
            flush()
        _armed.act()


def during(point: str, call: Callable[[], object], wait_until_started: Callable[[], object]) -> None:
    """Run `call`. If the point is due, act during the call, as soon as `wait_until_started` returns."""
    if _armed is None or not _armed.is_due(point):
        call()
        return
    from concurrent.futures import ThreadPoolExecutor  # not at the top: it would slow `cqrs --help` by 5 ms

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call)
        wait_until_started()
        _armed.act()
        running.result()


def _is_first(file: Path) -> bool:
    """True if this process acts first. The file appears with the whole process id in it, because `link` is atomic."""
    temporary_file = file.with_name(f"{file.name}.{os.getpid()}")
    temporary_file.write_text(str(os.getpid()))
    try:
        os.link(temporary_file, file)
    except FileExistsError:
        return False
    finally:
        temporary_file.unlink()
    return True


def _parse(text: str) -> _ArmedFailpoint | None:
    if not text:
        return None
    condition, _, file = text.partition("@")
    point, _, rest = condition.partition(":")
    nth, _, action = rest.partition(":")
    if point not in POINTS:
        raise ConfigurationError(f"{VARIABLE}: no point {point!r}", f"known: {', '.join(POINTS)}")
    if not (nth.isdecimal() and int(nth)) or action not in ACTIONS or (action == "wait" and not file):
        raise ConfigurationError(
            f"{VARIABLE}: not POINT:NTH:ACTION[@FILE]: {text!r}",
            f"NTH counts from 1; ACTION is {', '.join(ACTIONS)}, and wait needs a FILE",
        )
    return _ArmedFailpoint(point, int(nth), action, Path(file) if file else None)
