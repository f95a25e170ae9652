"""Shows a run while it goes, as one live line on a terminal and a plain line now and then elsewhere; sums it up."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import counted

if TYPE_CHECKING:
    from cqrs_cli.jobs.run.progress import Snapshot

#: Seconds between two lines off a terminal; a line is written only if it differs from the one before.
PLAIN_EVERY = 10.0


class Display:
    """Shows snapshots, and offers them to Prometheus if a port is given. Use as a context manager."""

    def __init__(self, cli: Cli, metrics_port: int | None = None) -> None:
        self._cli = cli
        self._stack = ExitStack()
        self._port = metrics_port
        self.last: Snapshot | None = None  # what was shown last
        self._shown_at = float("-inf")
        self._shown = (0, 0)  # commands decided and lag, as the last plain line said
        self._rate = 0.0

    def __enter__(self) -> "Display":
        if self._port is not None:
            from cqrs_cli.jobs.run.metrics import Metrics

            self._metrics: Metrics | None = Metrics(self._port)
            self._stack.callback(self._metrics.close)
            self._cli.note(f"metrics: http://127.0.0.1:{self._port}/metrics")
        else:
            self._metrics = None
        self._live = self._line()
        return self

    def _line(self) -> Callable[[str], None] | None:
        """A function that rewrites the live line; None off a terminal."""
        if self._cli.quiet or not sys.stderr.isatty():
            return None
        from rich.markup import escape

        status = self._stack.enter_context(self._cli.stderr.status("starting"))
        return lambda text: status.update(escape(text))

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def note(self, text: str) -> None:
        """A line that stays."""
        self._cli.note(text)

    def show(self, snapshot: "Snapshot") -> None:
        """Take in where the run is."""
        if self._metrics is not None:
            self._metrics.update(snapshot)
        self._rate = self._speed(snapshot)
        if self._live is not None:
            self._live(progress_line(snapshot, self._rate))
        elif self._is_due(snapshot):
            self._cli.note(progress_line(snapshot, self._rate))
            self._shown_at, self._shown = snapshot.at, _facts(snapshot)
        self.last = snapshot

    def _speed(self, now: "Snapshot") -> float:
        """Commands per second, smoothed over a few looks."""
        if self.last is None or now.at <= self.last.at:
            return 0.0
        speed = (now.total("commands") - self.last.total("commands")) / (now.at - self.last.at)
        return speed if self._rate == 0.0 else 0.6 * self._rate + 0.4 * max(0.0, speed)

    def _is_due(self, now: "Snapshot") -> bool:
        """True if the last line is old and not true any more; nothing is said before the first decision."""
        changed = now.total("commands") > 0 and _facts(now) != self._shown
        return changed and now.at - self._shown_at >= PLAIN_EVERY


def _facts(snapshot: "Snapshot") -> tuple[int, int]:
    return snapshot.total("commands"), snapshot.lag


def progress_line(snapshot: "Snapshot", rate: float) -> str:
    """One line: speed, lag, and what became of the commands."""
    counts = " · ".join(
        f"{name} {snapshot.total(name):,}" for name in ("accepted", "rejected", "duplicate", "failed")
    )
    return f"{rate:,.0f} commands/s · lag {snapshot.lag:,} · {counts}"


def run_text(done: "Snapshot") -> str:
    from cqrs_cli.core.messages.reasons import STATUSES

    sums = done.summary()
    parts = ", ".join(f"{sums[name]:,} {name}" for name in STATUSES)
    decided, events = counted(sums["commands"], "command"), counted(sums["events"], "event")
    return f"{decided} decided in {sums['seconds']:g} s: {parts}; {events}"
