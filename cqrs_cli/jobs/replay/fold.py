"""All aggregates of one partition, folded from the log's first event: pure, and as fast as the rest of a replay is.

In memory rest an aggregate's id, state, version and the id and time of its last event: about 0.5 KB, plus its state.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cqrs_cli.core import digest
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.fold import FoldError, fold_next
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record


class ReplayFoldError(FoldError):
    """The record at `offset` cannot follow those before it; the caller adds topic and partition."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset


class AggregateRow(NamedTuple):
    """An aggregate as a replay writes it: `time` is its last event's, `state` canonical JSON of `decoded`."""

    id: str
    version: int
    time: str
    state: bytes
    decoded: State


class Total(NamedTuple):
    """A set of aggregates: how many, of how many events, and the sum of their digests."""

    aggregates: int = 0
    events: int = 0
    digest: int = 0

    def plus(self, other: "Total") -> "Total":
        """Both sets together; they share no aggregate."""
        return Total(
            self.aggregates + other.aggregates,
            self.events + other.events,
            digest.add(self.digest, other.digest),
        )


NOTHING = Total()

#: Version, state, and the time of the last event.
_At = tuple[int, State, str]


class ReplayFold:
    """Aggregates under way. `until` (RFC 3339, UTC, ms) keeps each at its last version whose time is not later."""

    def __init__(self, aggregate: Aggregate, until: str | None = None) -> None:
        self._aggregate = aggregate
        self._until = until
        self._now: dict[str, _At] = {}
        self._kept = self._now if until is None else {}

    def fold(self, records: Iterable[Record]) -> None:
        """Go on with the next records of the partition; raises `ReplayFoldError` for one that cannot follow.

        Unlike recovery, which meets events it has folded before, each event must be its aggregate's next.
        """
        now, kept, until, aggregate = self._now, self._kept, self._until, self._aggregate
        absent: _At = (0, aggregate.decider.initial, "")
        offset = -1
        try:
            for record in records:
                offset = record.offset
                event = read_event(record.value)
                version, state, _ = now.get(event.subject, absent)
                at = (version + 1, fold_next(aggregate, version, state, event), event.time)
                now[event.subject] = at
                if until is not None and event.time <= until:
                    kept[event.subject] = at
        except (FoldError, ValueError) as error:
            raise ReplayFoldError(offset, str(error)) from error

    @property
    def state_class(self) -> type[State]:
        """The class of the states."""
        return self._aggregate.state

    def rows(self) -> Iterator[AggregateRow]:
        """Every aggregate, as it was at `until`."""
        encode = self._aggregate.encode_state
        for aggregate_id, (version, state, time) in self._kept.items():
            yield AggregateRow(aggregate_id, version, time, encode(state), state)

    def total(self) -> Total:
        """The total of `rows`. An aggregate at version n has n events, since each event is the next one."""
        encode, one = self._aggregate.encode_state, digest.aggregate_digest
        events = summed = 0
        for aggregate_id, (version, state, _) in self._kept.items():
            events += version
            summed += one(aggregate_id, version, encode(state))
        return Total(len(self._kept), events, summed % digest.MODULUS)
