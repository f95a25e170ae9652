"""The progress of a long job: a live line on a terminal, plain lines elsewhere, and metrics if requested."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import PLAIN_INTERVAL
from cqrs_cli.formatting import smoothed

if TYPE_CHECKING:
    from collections.abc import Callable

    from cqrs_cli.runs.endpoint import Endpoint, SnapshotCollector


class TimedProgress(Protocol):
    """The progress of a job, with the time at which it was polled."""

    @property
    def polled_at(self) -> float: ...  # monotonic seconds


class ReadProgress(TimedProgress, Protocol):
    """The progress of a job that reads records: the numbers of read and unread records."""

    @property
    def position(self) -> int: ...

    @property
    def lag(self) -> int: ...


_Progress = TypeVar("_Progress", bound=TimedProgress)
_RecordsProgress = TypeVar("_RecordsProgress", bound=ReadProgress)


class JobDisplay(Generic[_Progress]):
    """Shows the progress of a job, and serves it to Prometheus if an address is given. Use as a context manager."""

    interval = PLAIN_INTERVAL  # least number of seconds between two plain lines

    def __init__(
        self, cli: Cli, metrics: "tuple[tuple[str, int], SnapshotCollector[_Progress]] | None" = None
    ) -> None:
        """`metrics`: the host and port of the endpoint, and the collector."""
        self.cli = cli
        self.last: _Progress | None = None  # the last shown progress
        self.rate = 0.0
        self._stack, self._metrics = ExitStack(), metrics
        self._endpoint: Endpoint[_Progress] | None = None
        self._set_live_text: Callable[[str], None] | None = None
        self._last_shown_values: Any = None  # the values in the last plain line
        self._last_line_at = float("-inf")

    def __enter__(self) -> Any:
        if self._metrics is not None:
            self._endpoint = _serve(self.cli, self._stack, *self._metrics)
        if self.cli.is_live:
            from rich.text import Text

            status = self._stack.enter_context(self.cli.stderr.status("starting"))
            self._set_live_text = lambda text: status.update(Text(text))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def warn(self, text: str) -> None:
        """Print a permanent line, for a message that needs an operator's attention."""
        if self._endpoint is not None:
            self._endpoint.record_heartbeat()
        self.cli.print_note(text, "warning")

    def restart(self, reason: str) -> None:
        """Print why the job starts again. Until its next progress, `/readyz` reports that the job is not ready."""
        if self._endpoint is not None:
            self._endpoint.forget()
        self.last = None
        self.warn(reason)

    def show(self, progress: _Progress) -> None:
        """Show the current progress."""
        previous_progress, self.last = self.last, progress
        if self._endpoint is not None:
            self._endpoint.update(progress)
        if previous_progress is not None and progress.polled_at > previous_progress.polled_at:
            self.rate = smoothed(
                self.rate,
                (self.processed_count(progress) - self.processed_count(previous_progress))
                / (progress.polled_at - previous_progress.polled_at),
            )
        self.print_once(progress)
        shown_values = self.shown_values(progress)
        if self._set_live_text is not None:
            self._set_live_text(self.progress_line(progress))
        elif (
            self.has_content(progress)
            and shown_values != self._last_shown_values
            and progress.polled_at - self._last_line_at >= self.interval
        ):
            self.print_line(progress)
            self._last_shown_values, self._last_line_at = shown_values, progress.polled_at

    def print_line(self, progress: _Progress) -> None:
        """Write a plain line."""
        self.cli.print_note(self.progress_line(progress))

    def print_once(self, progress: _Progress) -> None:
        """Print messages that appear only once."""

    def has_content(self, progress: _Progress) -> bool:
        """True if a plain line would have content."""
        return True

    def shown_values(self, progress: _Progress) -> Any:
        """Return the part of the progress that matters to a reader: a plain line is written only if it has changed."""
        return self.processed_count(progress)

    def processed_count(self, progress: _Progress) -> int:
        """Return the number whose growth per second is the rate."""
        raise NotImplementedError

    def progress_line(self, progress: _Progress) -> str:
        """Return the progress line."""
        raise NotImplementedError


class RecordsDisplay(JobDisplay[_RecordsProgress]):
    """Shows how fast a job reads records, and how many are left."""

    def processed_count(self, progress: _RecordsProgress) -> int:
        return progress.position

    def progress_line(self, progress: _RecordsProgress) -> str:
        return f"{self.rate:,.0f} records/s · lag {progress.lag:,}"

    def has_content(self, progress: _RecordsProgress) -> bool:
        """Return True. The first progress has no rate yet: it is recorded as shown, so that no line is printed."""
        if self._last_shown_values is None:
            self._last_shown_values, self._last_line_at = self.shown_values(progress), progress.polled_at
        return True


def _serve(
    cli: Cli, stack: ExitStack, address: tuple[str, int], metrics: "SnapshotCollector[_Progress]"
) -> "Endpoint[_Progress]":
    """Serve metrics at this host and port until the stack is closed, and print the address."""
    from cqrs_cli.runs.endpoint import Endpoint

    host, port = address
    endpoint = Endpoint(metrics, host, port)
    stack.callback(endpoint.close)
    host_text = f"[{host}]" if ":" in host else host
    cli.print_note(f"metrics: http://{host_text}:{endpoint.port}/metrics, /healthz and /readyz there")
    return endpoint
