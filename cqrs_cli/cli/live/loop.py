"""The loop of `cqrs top`: looks in the background, draws, and listens to the keys."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cqrs_cli.cli.live.keys import Keys
from cqrs_cli.cli.live.model import Look, Reasons, View
from cqrs_cli.cli.live.screen import MOST, picture

if TYPE_CHECKING:
    from rich.console import Console

#: Seconds that a key may wait to be seen to.
_TICK = 0.1

#: Seconds that the end waits for a look that is under way: one at a broker that is gone takes longer.
_LAST = 1.0


class _Seen(NamedTuple):
    """The looks and the trouble to show, handed from the looking thread to the drawing one as one value."""

    before: Look | None = None
    now: Look | None = None
    reasons: Sequence[tuple[str, str, int]] = ()
    trouble: str = ""


class _Watch:
    """Looks every `interval` seconds in a thread of its own: a broker that is slow to answer holds up no key."""

    def __init__(self, look: Callable[[], Look | str], close: Callable[[], None], interval: float) -> None:
        self._look, self._close, self._interval = look, close, interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen = _Seen()
        self.error: Exception | None = None

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_LAST)

    def _run(self) -> None:
        reasons = Reasons()
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                look = self._look()
                if isinstance(look, str):
                    self.seen = self.seen._replace(trouble=look)
                else:
                    reasons.add(look)
                    self.seen = _Seen(self.seen.now, look, reasons.most(MOST))
                self._stop.wait(max(0.0, began + self._interval - time.monotonic()))
        except Exception as error:
            self.error = error
        finally:
            self._close()


def show_live(
    console: "Console", look: Callable[[], Look | str], close: Callable[[], None], interval: float
) -> None:
    """Show looks until `q` is pressed, then `close`. Afterwards the terminal is as it was.

    `look` is called in another thread; it may return why there is none. An error that it raises is raised here.
    """
    from rich.live import Live

    view = View()
    with (
        Keys() as keys,
        _Watch(look, close, interval) as watch,
        Live("looking …", console=console, screen=True, auto_refresh=False) as live,
    ):
        shown = watch.seen
        while not view.ended:
            if watch.error is not None:
                raise watch.error
            if not view.paused:
                shown = watch.seen
            if shown.now is not None:
                drawn = picture(
                    shown.before, shown.now, view, shown.reasons, watch.seen.trouble, console.height
                )
                live.update(drawn, refresh=True)
            elif watch.seen.trouble:
                live.update(f"{watch.seen.trouble}; still trying, q quits", refresh=True)
            for key in keys.pressed(_TICK):
                view = view.press(key)
