"""The broker's clock, as far as an owner knows it: a deferred command is due by the broker's clock."""

from collections.abc import Callable, Iterable


class BrokerClock:
    """An owner's clock, corrected by its lead over the broker's clock. Times are in ms."""

    def __init__(self, tolerance: int, report: Callable[[str], None] = lambda text: None) -> None:
        """A lead of up to `tolerance` is ignored; `report` gets a text for the operator about a longer lead."""
        self._tolerance, self._report = tolerance, report
        self.lead = 0

    def now(self, own: float) -> float:
        """Return the broker's time at the time `own` of the owner's clock."""
        return own - self.lead

    def learn_from_timestamps(self, sent_at: float, stamps: Iterable[int]) -> None:
        """Learn from the broker's timestamps of records that were sent after `sent_at`, a time of the owner's clock."""
        lead = max((int(sent_at) - stamp for stamp in stamps), default=self.lead)
        self.lead = lead if lead > self._tolerance else 0
        if self.lead:
            self._report(
                f"the clock of an owner's machine is {self.lead // 1000} s ahead of the broker's: deferred commands "
                "wait by the broker's; set it right"
            )
