"""The live display of `cqrs top`: it polls the broker in a thread, draws, and reads the keys."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.cli.live.keys import Keys
from cqrs_cli.cli.live.model import Choices, Reasons
from cqrs_cli.errors import UnavailableError
from cqrs_cli.status.rates import StatusSnapshot, with_rates

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: The longest delay of a key in seconds.
_TICK = 0.1

#: Timeout in seconds for a poll in progress at the end: without a broker a poll takes longer.
_LAST = 1.0

#: The number of reasons to display.
_MOST = 6


def looks(
    look: Callable[[], StatusSnapshot],
    interval: float,
    say: Callable[[str], None],
    sleep: Callable[[float], object],
) -> Iterator[StatusSnapshot]:
    """Yield a snapshot every `interval` seconds, with the rates since the previous snapshot; the first has no rates.

    If the broker is away, `say` gets the reason. `sleep` returns True to end the loop.
    """
    before: StatusSnapshot | None = None
    while True:
        began = time.monotonic()
        try:
            now = look()
        except UnavailableError as error:
            say(error.message)
        else:
            before = with_rates(before, now)
            yield before
        if sleep(max(0.0, began + interval - time.monotonic())):
            return


class LiveLook(NamedTuple):
    """The snapshot and the error to show, passed from the polling thread to the drawing thread as one value."""

    look: StatusSnapshot | None = None
    reasons: Sequence[tuple[str, str, int]] = ()
    trouble: str = ""


class _Watch:
    """Polls in a thread of its own, so that a slow broker does not delay the keys."""

    def __init__(
        self, look: Callable[[], StatusSnapshot], close: Callable[[], None], interval: float
    ) -> None:
        self._look, self._close, self._interval = look, close, interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen = LiveLook()
        self.error: Exception | None = None

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_LAST)

    def _say(self, trouble: str) -> None:
        self.seen = self.seen._replace(trouble=trouble)

    def _run(self) -> None:
        reasons = Reasons()
        try:
            for look in looks(self._look, self._interval, self._say, self._stop.wait):
                reasons.add(look)
                self.seen = LiveLook(look, reasons.most(_MOST))
        except Exception as error:
            self.error = error
        finally:
            self._close()


def show_live(
    console: "Console",
    look: Callable[[], StatusSnapshot],
    close: Callable[[], None],
    interval: float,
    draw: "Callable[[LiveLook, StatusSnapshot, Choices], RenderableType]",
) -> None:
    """Draw snapshots until `q` is pressed, then call `close`. The terminal's mode is restored.

    `look` is called in another thread; an error that it raises is raised here, unless the broker is away.
    """
    from rich.live import Live

    choices = Choices()
    with (
        Keys() as keys,
        _Watch(look, close, interval) as watch,
        Live("looking …", console=console, screen=True, auto_refresh=False) as live,
    ):
        shown = watch.seen
        while not choices.ended:
            if watch.error is not None:
                raise watch.error
            if not choices.paused:
                shown = watch.seen
            if shown.look is not None:
                seen = shown._replace(trouble=watch.seen.trouble)
                live.update(draw(seen, shown.look, choices), refresh=True)
            elif watch.seen.trouble:
                live.update(f"{watch.seen.trouble}; still trying, q quits", refresh=True)
            for key in keys.pressed(_TICK):
                choices = choices.press(key)
