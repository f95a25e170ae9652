"""Shows a run while it goes: one live line on a terminal, elsewhere a plain line now and then, or JSON Lines."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import PLAIN_EVERY
from cqrs_cli.cli.render.process import Listening
from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.words import counted, smoothed

if TYPE_CHECKING:
    from cqrs_cli.runs.endpoint import Endpoint, JobLook, Served
    from cqrs_cli.runs.snapshot import Rebuild, Snapshot

    _L = TypeVar("_L", bound=JobLook)

#: The statuses that a line of text names only if there are any.
_SELDOM = ("unchanged", "deferred")

#: Seconds between two JSON Lines; one is written only if it differs from the one before.
STREAM_EVERY = 1.0


class Display:
    """Shows snapshots, and serves them to Prometheus if an address is given. Use as a context manager."""

    def __init__(self, cli: Cli, metrics: tuple[str, int] | None = None) -> None:
        """`metrics`: host and port to serve them at."""
        self._cli = cli
        self._stack = ExitStack()
        self._address = metrics
        self._endpoint: Endpoint[Snapshot] | None = None
        self.began = time.monotonic()
        self.last: Snapshot | None = None  # what was shown last
        self._shown_at = float("-inf")
        self._shown: object = None  # the facts of the last line
        self._rate = 0.0
        self._listening = Listening(cli)
        self._largest: Rebuild | None = (
            None  # of the rebuild that goes on, as it was when most was to be folded
        )

    def __enter__(self) -> "Display":
        if self._address is not None:
            from cqrs_cli.runs.metrics import Metrics

            metrics: Served[Snapshot] = Metrics()
            self._endpoint = serve_metrics(self._cli, self._stack, self._address, metrics)
        self._live = self._line()
        return self

    def _line(self) -> Callable[[str], None] | None:
        """A function that rewrites the live line; None off a terminal."""
        if not self._cli.is_live:
            return None
        from rich.markup import escape

        status = self._stack.enter_context(self._cli.stderr.status("starting"))
        return lambda text: status.update(escape(text))

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def note(self, text: str) -> None:
        """A line that stays: something that an operator should look at."""
        if self._endpoint is not None:
            self._endpoint.beat()
        self._cli.note(text, "warning")

    def show(self, snapshot: "Snapshot") -> None:
        """Take in where the run is."""
        if self._endpoint is not None:
            self._endpoint.update(snapshot)
        self._rate = self._speed(snapshot)
        self._tell_rebuilt(snapshot)
        if snapshot.processes is not None:
            self._listening.show(snapshot.processes)
        if self._live is not None:
            self._live(progress_line(snapshot, self._rate))
        elif self._is_due(snapshot):
            if not self._cli.streaming:
                self._cli.note(progress_line(snapshot, self._rate))
            elif not self._cli.quiet:
                self._cli.event("progress", progress_document(snapshot, self._rate))
            self._shown_at, self._shown = snapshot.at, self._facts(snapshot)
        self.last = snapshot

    def _tell_rebuilt(self, snapshot: "Snapshot") -> None:
        """Say that a rebuild which was shown has ended."""
        now, largest = snapshot.rebuild(), self._largest
        if now is None and largest is not None:
            self._largest = None
            self._cli.note(f"rebuilt {_shards(largest)}")
        elif now is not None and (largest is None or now.events > largest.events):
            self._largest = now

    def _speed(self, now: "Snapshot") -> float:
        """Commands per second, smoothed over a few looks."""
        if self.last is None or now.at <= self.last.at:
            return 0.0
        speed = (now.total("commands") - self.last.total("commands")) / (now.at - self.last.at)
        return smoothed(self._rate, speed)

    def _is_due(self, now: "Snapshot") -> bool:
        """True if the last line is old and not true any more. A log is told nothing before the first decision but of a
        rebuild.
        """
        worth = self._cli.streaming or now.total("commands") > 0 or now.rebuild() is not None
        every = STREAM_EVERY if self._cli.streaming else PLAIN_EVERY
        return worth and self._facts(now) != self._shown and now.at - self._shown_at >= every

    def _facts(self, now: "Snapshot") -> tuple[object, ...]:
        """The parts of a line that a reader waits for; speed is not among them."""
        waiting = now.waiting() if self._cli.streaming else None  # a plain line does not tell it
        reacted = None if now.processes is None else (now.processes.position, now.processes.lag)
        return now.total("commands"), now.lag, now.rebuild(), waiting, reacted


def serve_metrics(
    cli: Cli, stack: ExitStack, address: tuple[str, int], metrics: "Served[_L]"
) -> "Endpoint[_L]":
    """Serve metrics at this host and port until the stack is closed, and say where."""
    from cqrs_cli.runs.endpoint import Endpoint

    host, port = address
    endpoint = Endpoint(metrics, host, port)
    stack.callback(endpoint.close)
    shown = f"[{host}]" if ":" in host else host
    cli.note(f"metrics: http://{shown}:{endpoint.port}/metrics, /healthz and /readyz there")
    return endpoint


def progress_line(snapshot: "Snapshot", rate: float) -> str:
    """One line: a rebuild, if there is one, speed, lag, and what became of the commands."""
    rebuild = snapshot.rebuild()
    rebuilding = "" if rebuild is None else f"rebuilding {_shards(rebuild)}, {rebuild.percent} %"
    if rebuilding and not snapshot.total("commands"):
        return rebuilding
    totals = {name: snapshot.total(name) for name in STATUSES}
    counts = " · ".join(f"{name} {count:,}" for name, count in totals.items() if count or name not in _SELDOM)
    speed = f"{rate:,.0f} commands/s · lag {snapshot.lag:,} · {counts}"
    if snapshot.processes is not None:
        speed += "".join(f" · {name} lag {lag:,}" for name, lag in snapshot.processes.lags().items())
    return f"{rebuilding} · {speed}" if rebuilding else speed


def _shards(rebuild: "Rebuild") -> str:
    return f"{counted(rebuild.shards, 'shard')} from {counted(rebuild.events, 'event')}"


def progress_document(snapshot: "Snapshot", rate: float) -> dict[str, Any]:
    """The same for programs, with a part for each aggregate."""
    rebuild = snapshot.rebuild()
    aggregates = sorted({name for name, _ in [*snapshot.counts, *snapshot.lags]})
    reacting = {} if snapshot.processes is None else {"processes": snapshot.processes.by_process()}
    return {
        **_sums(snapshot, None),
        "lag": snapshot.lag,
        "per_second": round(rate, 1),
        "rebuilding": None if rebuild is None else rebuild._asdict(),
        "waiting": snapshot.waiting_places(),
        "aggregates": {
            name: {
                **_sums(snapshot, name),
                "lag": sum(lag for partition, lag in snapshot.lags.items() if partition.aggregate == name),
            }
            for name in aggregates
        },
        **reacting,
    }


def _sums(snapshot: "Snapshot", aggregate: str | None) -> dict[str, int]:
    return {name: snapshot.total(name, aggregate) for name in ("commands", *STATUSES, "events")}


def run_text(done: "Snapshot") -> str:
    """What a run came to. Its seconds are from the first commit to the last: a run may wait longer than it decides."""
    sums = done.summary()
    parts = ", ".join(f"{sums[name]:,} {name}" for name in STATUSES)
    decided, events = counted(sums["commands"], "command"), counted(sums["events"], "event")
    text = f"{decided} decided within {sums['seconds']:g} s: {parts}; {events}"
    if done.processes is None:
        return text
    from cqrs_cli.cli.render.process import processes_text

    return f"{text}; {', '.join(done.processes.lags())}: {processes_text(done.processes)}"
