"""The broker's clock, as far as an owner knows it: the broker's time says when a deferred command is due."""

from collections.abc import Callable, Iterable


class BrokerClock:
    """An owner's clock, put back by what it is known to be ahead. Times are ms."""

    def __init__(self, tolerance: int, note: Callable[[str], None] = lambda text: None) -> None:
        """A difference up to `tolerance` is left as it is; `note` is told of a greater one, for people."""
        self._tolerance, self._note = tolerance, note
        self.ahead = 0

    def now(self, own: float) -> float:
        """The broker's time when the owner's clock says `own`."""
        return own - self.ahead

    def tell(self, own: float, stamps: Iterable[int]) -> None:
        """Learn from records that were sent after `own`, by the owner's clock: the broker's times of them."""
        ahead = max((int(own) - stamp for stamp in stamps), default=self.ahead)
        self.ahead = ahead if ahead > self._tolerance else 0
        if self.ahead:
            self._note(
                f"the clock of an owner's machine is {self.ahead // 1000} s ahead of the broker's: deferred commands "
                "wait by the broker's; set it right"
            )
