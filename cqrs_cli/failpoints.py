"""Failpoints: named places in the protocols at which tests kill, stop or delay an owner.

    CQRS_FAILPOINT=POINT:NTH:ACTION[@FILE]      e.g. commit.sent:5:kill

The action happens when the owners of a process reach POINT for the NTH time. With FILE only the first process that gets
so far acts, and writes its process id to FILE. ACTION is `kill` (SIGKILL), `stop` (SIGSTOP) or `wait` (only this owner
waits, until FILE is removed).

The points `grow.*` are in `cqrs repartition`, an operator's command.

If the variable is unset, a failpoint costs one comparison. A batch passes failpoints, a single command never does.
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

#: Each failpoint with the state of the protocol there, in the order of the protocol. docs/verification.md repeats it.
POINTS = {
    "shard.opening": "the shard is there, its marker does not yet say that it is at work",
    "checkpoint.fetched": "the data of a checkpoint is here and checked, not in the shard's place",
    "checkpoint.installed": "a checkpoint is in the shard's place, without a marker",
    "fence.before": "warm: what is visible is folded",
    "fence.after": "the owner before is fenced, its open transaction settled",
    "claim.before": "the committed claim is judged, mine not yet committed",
    "claim.after": "my claim is committed",
    "position.before": "the position is judged, not yet committed",
    "position.after": "the position is committed",
    "recover.taken": "the shard has my token, nothing is folded",
    "recover.events": "events are folded, outcomes are not",
    "recover.deferred": "deferred commands are folded, outcomes are not",
    "recover.after": "the shard is up to the log",
    "decide.before": "a batch is polled",
    "decide.after": "the first piece of the batch is decided, no transaction begun",
    "produce.first": "the first piece's events are with the broker, its outcomes are not",
    "produce.after": "all records are handed over",
    "offsets.after": "the position is part of the transaction",
    "flush.after": "the broker has all records",
    "commit.sent": "the request to commit is on the wire, its reply not read",
    "commit.after": "the commit is acknowledged, the state cache does not know",
    "grow.lineage": "the lineage log is there, without the wish to grow",
    "grow.wished": "the wish is in the lineage, no topic has grown",
    "grow.topic": "one more topic has grown, the commands as the last",
    "forward.said": "commands of keys that have moved are with the broker, their outcomes are not committed",
    "split.before": "all that was sent before the growth is decided, nothing is given away",
    "split.after": "the split is committed, the owner does not know",
    "adopt.chunk": "a part of the inherited deferred commands is committed in the child's own topic",
    "adopt.before_begun": "the last of them are handed over, and that it has begun is not",
    "again.before": "what is due is chosen, no transaction begun",
    "again.said": "what was due is said again, its entries do not know",
    "again.noted": "the entries of what was said again are handed over",
    "upkeep.noted": "keys that were wrapped anew, or a beat of the keys, are handed over",
    "apply.before": "committed to Kafka, not yet to LMDB",
    "apply.inside": "inside LMDB's transaction",
    "apply.after": "applied",
    "checkpoint.copied": "the shard is copied, nothing is uploaded",
    "checkpoint.uploaded": "the data of a checkpoint is uploaded, its manifest is not",
    "checkpoint.written": "the manifest of a checkpoint is written, old ones are not removed",
    "shard.closing": "all is done, the shard not yet synced",
    "shard.closed": "the shard is synced and closed, its marker does not say so",
}
ACTIONS = ("kill", "stop", "wait")


class _Armed:
    """The failpoint of `CQRS_FAILPOINT`. It counts how often it was reached."""

    def __init__(self, point: str, nth: int, action: str, file: Path | None) -> None:
        self.point, self._nth, self._action, self._file = point, nth, action, file
        self._times = count(1)

    def due(self, point: str) -> bool:
        return point == self.point and next(self._times) == self._nth

    def act(self) -> None:
        if self._file is not None and not _first(self._file):
            return
        if self._action == "wait":
            while self._file is not None and self._file.exists():
                time.sleep(0.01)
            return
        # The signal goes to this thread, which stops here. If the signal went to the process, this thread would run on
        # for a moment, and might stop while it holds a lock.
        number = signal.SIGKILL if self._action == "kill" else signal.SIGSTOP
        signal.pthread_kill(threading.get_ident(), number)


class _CallingFailpoint(_Armed):
    """The failpoint of a test that runs owners in its own process: it calls a function the first `times`."""

    def __init__(self, point: str, act: Callable[[], object], times: int) -> None:
        super().__init__(point, times, "", None)
        self._call = act

    def due(self, point: str) -> bool:
        return point == self.point and next(self._times) <= self._nth

    def act(self) -> None:
        self._call()


_armed: _Armed | None = None


def arm() -> None:
    """Arm the failpoint that the environment variable names; raises `ConfigurationError` for a malformed value."""
    global _armed
    if not isinstance(_armed, _CallingFailpoint):
        _armed = _parse(os.environ.get(VARIABLE, ""))


@contextmanager
def acting(point: str, act: Callable[[], object], times: int = 1) -> Iterator[None]:
    """Inside the block, call `act` the first `times` that an owner of this process reaches the point."""
    global _armed
    before, _armed = _armed, _CallingFailpoint(point, act, times)
    try:
        yield
    finally:
        _armed = before


def environment() -> dict[str, str]:
    """Return the environment variables for workers, empty if no failpoint is set; raises `ConfigurationError`."""
    text = os.environ.get(VARIABLE, "")
    return {VARIABLE: text} if _parse(text) else {}


def armed(point: str) -> bool:
    """True if this point is armed in this process."""
    return _armed is not None and _armed.point == point


def reached(point: str, visibly: Callable[[], object] | None = None) -> None:
    """Act if the point is due. Before that, `visibly` sends the owner's earlier work to the broker."""
    if _armed is not None and _armed.due(point):
        if visibly is not None:
            visibly()
        _armed.act()


def during(point: str, call: Callable[[], object], begun: Callable[[], object]) -> None:
    """Run `call`, which contains this point in its middle: if the point is due, act as soon as `begun` returns."""
    if _armed is None or not _armed.due(point):
        call()
        return
    from concurrent.futures import ThreadPoolExecutor  # not at the top: it would slow `cqrs --help` by 5 ms

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call)
        begun()
        _armed.act()
        running.result()


def _first(file: Path) -> bool:
    """True if this process acts first. The file appears with the whole process id in it, because `link` is atomic."""
    draft = file.with_name(f"{file.name}.{os.getpid()}")
    draft.write_text(str(os.getpid()))
    try:
        os.link(draft, file)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _parse(text: str) -> _Armed | None:
    if not text:
        return None
    place, _, file = text.partition("@")
    point, _, rest = place.partition(":")
    nth, _, action = rest.partition(":")
    if point not in POINTS:
        raise ConfigurationError(f"{VARIABLE}: no point {point!r}", f"known: {', '.join(POINTS)}")
    if not (nth.isdecimal() and int(nth)) or action not in ACTIONS or (action == "wait" and not file):
        raise ConfigurationError(
            f"{VARIABLE}: not POINT:NTH:ACTION[@FILE]: {text!r}",
            f"NTH counts from 1; ACTION is {', '.join(ACTIONS)}, and wait needs a FILE",
        )
    return _Armed(point, int(nth), action, Path(file) if file else None)
