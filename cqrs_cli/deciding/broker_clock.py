"""Estimates the broker's clock for an owner, because a deferred command is due by the broker's clock."""

from collections.abc import Callable, Iterable


class BrokerClock:
    """An owner's clock, corrected by its lead over the broker's clock. All times are in ms."""

    def __init__(self, tolerance: int, report: Callable[[str], None] = lambda text: None) -> None:
        """A lead of up to `tolerance` is ignored; `report` gets a text for the operator about a longer lead."""
        self._tolerance, self._report = tolerance, report
        self.lead = 0  # how far the owner's clock is ahead of the broker's clock

    def now(self, own_time: float) -> float:
        """Return the broker's time at the time `own_time` of the owner's clock."""
        return own_time - self.lead

    def learn_from_timestamps(self, sent_at: float, timestamps: Iterable[int]) -> None:
        """Compute the lead from records that were sent at or after `sent_at` (by the owner's clock), and the timestamps
        that the broker gave them. The broker cannot receive a record before it is sent, so an earlier timestamp shows
        that the owner's clock is ahead.
        """
        lead = max((int(sent_at) - timestamp for timestamp in timestamps), default=self.lead)
        self.lead = lead if lead > self._tolerance else 0
        if self.lead:
            self._report(
                f"the clock of an owner's machine is {self.lead // 1000} s ahead of the broker's clock: deferred "
                "commands wait by the broker's clock; synchronize the clock of the machine"
            )
