"""Shows a job that follows logs: one live line on a terminal, a plain line now and then elsewhere.

And how far a projection came.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import PLAIN_EVERY
from cqrs_cli.words import counted, smoothed

if TYPE_CHECKING:
    from cqrs_cli.following.projections.plan import ProjectionProgress
    from cqrs_cli.runs.endpoint import Endpoint


class Followed(Protocol):
    """The progress of a job at a time: records that are read, and those that are not."""

    @property
    def at(self) -> float: ...

    @property
    def position(self) -> int: ...

    @property
    def lag(self) -> int: ...


_P = TypeVar("_P", bound=Followed)


class RateDisplay(Generic[_P]):
    """Shows how fast a job moves. Use as a context manager."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self._stack = ExitStack()
        self._live: Callable[[str], None] | None = None
        self._shown: _P | None = None
        self._rate = 0.0
        self.last: _P | None = None  # what was shown last
        self.endpoint: Endpoint[Any] | None = None  # it serves what is shown

    def __enter__(self) -> "RateDisplay[_P]":
        if not self._cli.quiet and sys.stderr.isatty():
            from rich.markup import escape

            status = self._stack.enter_context(self._cli.stderr.status("starting"))
            self._live = lambda text: status.update(escape(text))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, progress: _P) -> None:
        """Take in how far it is."""
        before, self.last = self.last, progress
        if self.endpoint is not None:
            self.endpoint.update(progress)
        if before is not None and progress.at > before.at:
            speed = (progress.position - before.position) / (progress.at - before.at)
            self._rate = smoothed(self._rate, speed)
        text = f"{self._rate:,.0f} records/s · lag {progress.lag:,}"
        if self._live is not None:
            self._live(text)
        elif self._is_due(progress):
            self._cli.note(text)
            self._shown = progress

    def _is_due(self, progress: _P) -> bool:
        """True if the last line is old, and not true any more."""
        if self._shown is None:
            self._shown = progress
            return False
        moved = progress.position != self._shown.position
        return moved and progress.at - self._shown.at >= PLAIN_EVERY


def projection_document(name: str, revision: int, done: "ProjectionProgress") -> dict[str, Any]:
    """The document that `project --once` prints."""
    positions: dict[str, dict[str, int]] = {}
    for source, position in sorted(done.positions.items()):
        positions.setdefault(source.topic, {})[str(source.partition)] = position
    return {
        "projection": name,
        "revision": revision,
        "events": done.events,
        "seconds": round(done.seconds, 3),
        "lag": done.lag,
        "positions": positions,
    }


def projection_text(name: str, done: "ProjectionProgress") -> str:
    """The same as a line."""
    worked = f"{counted(done.events, 'event')} projected in {done.seconds:.3g} s; " if done.seconds else ""
    return f"{worked}{name} is at {done.position:,} of {done.position + done.lag:,} records"
