"""Checks the clock in each record of a split: the greatest timestamp of the decisions before the split.

A child partition starts its dedup window from this clock. If the clock were too late, the child would forget ids that
its parent remembers, and decide them again. If it were too early, the child would remember ids that its parent forgot.
"""

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.scope import Scope


class SplitChecker:
    """Receives the outcomes of a partition in order, from offset `start` on."""

    def __init__(self, scope: Scope, findings: Findings, start: int, inherited_clock: int) -> None:
        """`inherited_clock`: the clock (ms) that the partition got from its parents."""
        splits = () if scope.key_history is None else scope.key_history.splits
        self._splits = [split for split in splits if split.outcomes >= start]
        self._has_all_outcomes = start == 0 and scope.loss is None
        self._findings, self._clock = findings, inherited_clock

    def add_outcome(self, record: Record) -> None:
        """Process the next outcome."""
        if self._splits:
            self._check_splits(record.offset)
            self._clock = max(self._clock, record.timestamp)

    def finish_clock(self) -> None:
        """Check the remaining splits after the last outcome."""
        self._check_splits(None)

    def _check_splits(self, next_outcome: int | None) -> None:
        """Check the splits at or before the outcome offset `next_outcome`; None: all remaining splits."""
        while self._splits and (next_outcome is None or self._splits[0].outcomes <= next_outcome):
            split = self._splits.pop(0)
            if split.clock < self._clock or (self._has_all_outcomes and split.clock > self._clock):
                problem = (
                    f"is where the split at command {split.commands} has the clock {rfc3339(split.clock)}"
                )
                expectation = f"the latest decision before it is of {rfc3339(self._clock)}"
                self._findings.add_violation("outcomes", split.outcomes, f"{problem}: {expectation}")
