"""The clock that each split of a partition hands to its children: the greatest timestamp of what was decided before it.

With an earlier clock a child would decide an id again that its parent remembers; with a later one it would not forget
where a shard that is made from the log does.
"""

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.scope import Scope


class SplitClock:
    """Sees the outcomes of a partition in their order, from offset `start` on."""

    def __init__(self, scope: Scope, findings: Findings, start: int, inherited: int) -> None:
        """`inherited`: the clock that the partition had from its parents."""
        splits = () if scope.homes is None else scope.homes.splits
        self._splits = [one for one in splits if one.outcomes >= start]
        self._knows_all = start == 0 and scope.loss is None
        self._findings, self._clock = findings, inherited

    def see(self, record: Record) -> None:
        """The next outcome."""
        if self._splits:
            self._judge(record.offset)
            self._clock = max(self._clock, record.timestamp)

    def end(self) -> None:
        """There are no more."""
        self._judge(None)

    def _judge(self, upto: int | None) -> None:
        """Judge the splits that no outcome precedes any more."""
        while self._splits and (upto is None or self._splits[0].outcomes <= upto):
            split = self._splits.pop(0)
            if split.clock < self._clock or (self._knows_all and split.clock > self._clock):
                what = f"is where the split at command {split.commands} has the clock {rfc3339(split.clock)}"
                wanted = f"the latest decision below it is of {rfc3339(self._clock)}"
                self._findings.add("outcomes", split.outcomes, f"{what}: {wanted}")
