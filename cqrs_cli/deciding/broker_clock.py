"""Estimates the broker's clock for an owner, because a deferred command is due by the broker's clock."""

from collections.abc import Iterable

from cqrs_cli.observer import reached


class BrokerClock:
    """An owner's clock, corrected by its lead over the broker's clock. All times are in ms."""

    def __init__(self, tolerance: int) -> None:
        """A lead of up to `tolerance` is ignored; the operator gets a message about a longer lead."""
        self._tolerance = tolerance
        self.lead = 0  # how far the owner's clock is ahead of the broker's clock

    def now(self, own_time: float) -> float:
        """Return the broker's time at the time `own_time` of the owner's clock."""
        return own_time - self.lead

    def learn_from_timestamps(self, sent_at: float, timestamps: Iterable[int]) -> None:
        """Compute the lead from the timestamps that the broker gave to records. The owner sent these records at or
        after `sent_at` (by the owner's clock). The broker cannot receive a record before it is sent, so a timestamp
        before `sent_at` shows that the owner's clock is ahead.
        """
        lead = max((int(sent_at) - timestamp for timestamp in timestamps), default=self.lead)
        self.lead = lead if lead > self._tolerance else 0
        if self.lead:
            reached(
                "message",
                text=f"the clock of an owner's machine is {self.lead // 1000} s ahead of the broker's clock: deferred "
                "commands wait by the broker's clock; synchronize the clock of the machine",
            )
