"""All aggregates of one partition, folded from the log's first event: pure, and as fast as the rest of a replay is.

In memory rest an aggregate's id, state, version and the id and time of its last event: about 0.5 KB, plus its state.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cqrs_cli.core import digest
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.fold import FoldError, evolve
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState


class RefoldError(FoldError):
    """The record at `offset` cannot follow those before it; the caller adds topic and partition."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset = offset


class Row(NamedTuple):
    """An aggregate as a replay writes it: `time` is its last event's, `state` canonical JSON."""

    id: str
    version: int
    time: str
    state: bytes


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

#: Version, state, and the id and the time of the last event.
_At = tuple[int, State, str, str]


class ReplayFold:
    """Aggregates under way. `until` (RFC 3339, UTC, ms) keeps each at its last version whose time is not later."""

    def __init__(self, aggregate: Aggregate, until: str | None = None) -> None:
        self._aggregate = aggregate
        self._until = until
        self._now: dict[str, _At] = {}
        self._kept = self._now if until is None else {}

    def fold(self, records: Iterable[Record]) -> None:
        """Go on with the next records of the partition; raises `RefoldError` for one that cannot follow.

        Unlike recovery, which meets events it has folded before, each event must be its aggregate's next.
        """
        now, kept, until, aggregate = self._now, self._kept, self._until, self._aggregate
        initial = aggregate.decider.initial
        offset = -1
        try:
            for record in records:
                offset = record.offset
                event = read_event(record.value)
                subject, version = event.subject, event.aggregateversion
                before = now.get(subject)
                if before is None:
                    if version != 1:
                        raise FoldError(_out_of_order(subject, 0, version))
                    state = initial
                else:
                    if version != before[0] + 1:
                        raise FoldError(_out_of_order(subject, before[0], version))
                    state = before[1]
                now[subject] = at = (version, evolve(aggregate, state, event), event.id, event.time)
                if until is not None and event.time <= until:
                    kept[subject] = at
        except (FoldError, ValueError) as error:
            raise RefoldError(offset, str(error)) from error

    def rows(self) -> Iterator[Row]:
        """Every aggregate, as it was at `until`."""
        encode = self._aggregate.encode_state
        for aggregate_id, (version, state, _, time) in self._kept.items():
            yield Row(aggregate_id, version, time, encode(state))

    def total(self) -> Total:
        """What `rows` come to. An aggregate at version n is of n events, since none is missing."""
        encode, one = self._aggregate.encode_state, digest.aggregate_digest
        events = summed = 0
        for aggregate_id, (version, state, _, _) in self._kept.items():
            events += version
            summed += one(aggregate_id, version, encode(state))
        return Total(len(self._kept), events, summed % digest.MODULUS)

    def compare(self, shard: Iterable[tuple[str, StoredState]]) -> str | None:
        """The first difference between what is folded so far and a shard at the same position; None if there is none.

        Compared are the aggregates that exist, their versions, their last events and their states, all as they are
        now, whatever `until` is.
        """
        seen = set()
        for aggregate_id, saved in shard:
            at = self._now.get(aggregate_id)
            if at is None:
                return f"{aggregate_id!r} has version {saved.version} in the shard, and no events"
            version, state, event_id, _ = at
            if saved.version != version:
                return f"{aggregate_id!r} has version {saved.version} in the shard, its events give {version}"
            if (found := self._aggregate.encode_state(state)) != saved.state:
                return (
                    f"{aggregate_id!r} at version {version} is {_cut(saved.state)} in the shard, "
                    f"its events give {_cut(found)}"
                )
            if not event_id.endswith(f"/{saved.offset}/{saved.eventindex}"):
                return f"{aggregate_id!r} at version {version} comes from another event than {event_id} in the shard"
            seen.add(aggregate_id)
        missing = (
            next((name for name in self._now if name not in seen), None)
            if len(seen) < len(self._now)
            else None
        )
        return (
            None
            if missing is None
            else f"{missing!r} has version {self._now[missing][0]}, and is not in the shard"
        )


def _out_of_order(subject: str, version: int, found: int) -> str:
    if found <= version:
        return f"{subject!r} is at version {version} and has another event of version {found}"
    return f"{subject!r} is at version {version}, its next event has {found}: events are missing"


def _cut(state: bytes) -> str:
    text = state.decode(errors="replace")
    return text if len(text) <= 200 else f"{text[:200]}…"
