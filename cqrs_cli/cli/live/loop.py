"""The live display of `cqrs top`: it polls the broker in a thread, draws, and reads the keys."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.cli.live.keyboard import Keyboard
from cqrs_cli.cli.live.model import DisplayOptions, RecentReasons
from cqrs_cli.errors import UnavailableError
from cqrs_cli.status.rates import StatusSnapshot, with_rates

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Seconds to wait for a key before the screen is drawn again.
_KEY_TIMEOUT = 0.1

#: Seconds to wait for a poll in progress when the display ends; without a broker a poll takes longer.
_STOP_TIMEOUT = 1.0

#: The number of reasons to display.
_MAX_REASONS = 6


def snapshots(
    poll: Callable[[], StatusSnapshot],
    interval: float,
    report_error: Callable[[str], None],
    sleep: Callable[[float], object],
) -> Iterator[StatusSnapshot]:
    """Poll every `interval` seconds, and yield the snapshots. Each snapshot after the first has the rates since the
    previous snapshot.

    If the broker is unavailable, `report_error` gets the reason, unless the previous poll failed for the same reason.
    The loop ends when `sleep` returns True.
    """
    previous_snapshot: StatusSnapshot | None = None
    reported_message = ""
    while True:
        started_at = time.monotonic()
        try:
            current_snapshot = poll()
        except UnavailableError as error:
            if error.message != reported_message:
                report_error(error.message)
            reported_message = error.message
        else:
            reported_message = ""
            previous_snapshot = with_rates(previous_snapshot, current_snapshot)
            yield previous_snapshot
        if sleep(max(0.0, started_at + interval - time.monotonic())):
            return


class LiveSnapshot(NamedTuple):
    """The data to show, which the polling thread passes to the drawing thread as one value."""

    snapshot: StatusSnapshot | None = None
    reasons: Sequence[tuple[str, str, int]] = ()  # (aggregate, reason, count) of the last minute
    error: str = ""  # why the last poll failed; empty if it succeeded


class _PollingThread:
    """Polls in a thread of its own, so that a slow broker does not delay the keys."""

    def __init__(
        self, poll: Callable[[], StatusSnapshot], close: Callable[[], None], interval: float
    ) -> None:
        self._poll, self._close, self._interval = poll, close, interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.latest = LiveSnapshot()
        self.error: Exception | None = None

    def __enter__(self) -> "_PollingThread":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_STOP_TIMEOUT)

    def _report_error(self, error: str) -> None:
        self.latest = self.latest._replace(error=error)

    def _run(self) -> None:
        reasons = RecentReasons()
        try:
            for snapshot in snapshots(self._poll, self._interval, self._report_error, self._stop.wait):
                reasons.add_snapshot(snapshot)
                self.latest = LiveSnapshot(snapshot, reasons.most_frequent(_MAX_REASONS))
        except Exception as error:
            self.error = error
        finally:
            self._close()


def show_live(
    console: "Console",
    poll: Callable[[], StatusSnapshot],
    close: Callable[[], None],
    interval: float,
    draw: "Callable[[LiveSnapshot, StatusSnapshot, DisplayOptions], RenderableType]",
) -> None:
    """Draw snapshots until `q` is pressed, then call `close`. The terminal's mode is restored.

    `poll` is called in another thread. Its errors are raised here, except the error of an unavailable broker.
    """
    from rich.live import Live

    options = DisplayOptions()
    with (
        Keyboard() as keyboard,
        _PollingThread(poll, close, interval) as polling,
        Live("polling …", console=console, screen=True, auto_refresh=False) as live,
    ):
        displayed = polling.latest
        while not options.is_quitting:
            if polling.error is not None:
                raise polling.error
            if not options.is_paused:
                displayed = polling.latest
            if displayed.snapshot is not None:
                with_latest_error = displayed._replace(error=polling.latest.error)
                live.update(draw(with_latest_error, displayed.snapshot, options), refresh=True)
            elif polling.latest.error:
                live.update(f"{polling.latest.error}; still trying, q quits", refresh=True)
            for key in keyboard.read_keys(_KEY_TIMEOUT):
                options = options.press(key)
