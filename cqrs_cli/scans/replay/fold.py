"""Folds all aggregates of one partition from the log's first event, for `cqrs replay`. Pure, except for spills to disk.

An aggregate takes about 0.4 KB of memory, plus its state. If memory is full, the states of half of the aggregates are
spilled to disk. Their later events are spilled, too, and folded after the other aggregates are finished. So memory is
bounded for any number of aggregates, and each event is folded once.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from cqrs_cli.core import digest
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS, is_interrupt
from cqrs_cli.core.fold import FoldError, fold_next
from cqrs_cli.core.messages.event import decode_event_fields, read_event
from cqrs_cli.errors import CqrsError
from cqrs_cli.scans.replay.limit import MemoryLimit
from cqrs_cli.scans.replay.parts import WHOLE, hash_of
from cqrs_cli.scans.replay.progress import ReplayProgress
from cqrs_cli.scans.replay.spill import Spill, SpilledState


class ReplayFoldError(FoldError):
    """The record at `offset` cannot be folded after the earlier records. The caller adds topic and partition."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"offset {offset}: {reason}")
        self.offset, self.reason = offset, reason


class AggregateRow(NamedTuple):
    """An aggregate in the output of a replay."""

    id: str
    version: int
    time: str  # time of the last event, RFC 3339
    state: bytes  # canonical JSON of `decoded`
    decoded: State


class Total(NamedTuple):
    """The totals of a set of aggregates."""

    aggregates: int = 0  # number of aggregates
    events: int = 0  # number of their events
    digest: int = 0  # sum of the aggregates' digests, modulo `digest.MODULUS`

    def plus(self, other: "Total") -> "Total":
        """Return the total of both sets. They must have no aggregate in common."""
        return Total(
            self.aggregates + other.aggregates,
            self.events + other.events,
            digest.add_digests(self.digest, other.digest),
        )


EMPTY_TOTAL = Total()

#: An aggregate at a version: version, state, and the time of the last event.
_Snapshot = tuple[int, State, str]


def _foreign_event_error(subject: str) -> FoldError:
    return FoldError(f"the event of {subject!r} has the key of another aggregate")


class ReplayFold:
    """Folds aggregates. Call `fold` for all events, then `rows` or `total`, then `close`, which deletes spill files.

    With `until` (RFC 3339, UTC, ms) the result is each aggregate's last version at or before that time.
    """

    def __init__(
        self,
        aggregate: Aggregate,
        until: str | None = None,
        limit: MemoryLimit | None = None,
        part: range = WHOLE,
        progress: ReplayProgress | None = None,
        personal: bool = False,
    ) -> None:
        """`part`: fold only aggregates whose id hash is in this range. `progress`: is closed by `close`.
        `personal`: the events contain decrypted personal values, so spill files must be encrypted.
        """
        self._personal = personal
        self._aggregate = aggregate
        self._until = until
        self._limit = limit
        self._latest: dict[str, _Snapshot] = {}  # aggregate id → snapshot after all events so far
        self._at_until = self._latest if until is None else {}  # aggregate id → snapshot at `until`
        self._part = part
        self._low_hash, self._high_hash = part.start, part.stop  # hash range of the aggregates in memory
        self._spills: list[Spill] = []  # each has a range of higher hashes; the highest range is first
        self._total = EMPTY_TOTAL
        self._spilled_events = 0  # number of events on disk
        self._files = ExitStack()
        self._progress = progress
        if progress is not None:
            self._files.callback(progress.close)

    def fold(self, values: Sequence[bytes | None], offset_of: Callable[[int], int]) -> None:
        """Fold the next records of the partition; `offset_of(index)` is the offset of the record `values[index]`.

        Each event must be its aggregate's next event; any other event raises `ReplayFoldError`. Recovery is less
        strict, because it may read events again.
        """
        self._fold(values, offset_of)
        if self._progress is not None and values:
            self._progress.report_read(len(values), offset_of(len(values) - 1), self._spilled_events)

    def _fold(self, values: Sequence[bytes | None], offset_of: Callable[[int], int]) -> None:
        index = 0
        while (index := self._fold_fast(values, index, offset_of)) < len(values):
            try:
                self._fold_checked(values[index])
            except (FoldError, ValueError) as error:
                raise ReplayFoldError(offset_of(index), str(error)) from error
            index += 1
        if self._limit is not None and self._limit.is_reached(len(self._latest)):
            self._spill()

    def _fold_fast(self, values: Sequence[bytes | None], start: int, offset_of: Callable[[int], int]) -> int:
        """Fold records from `start` on; return the index of the first record that needs `_fold_checked`, or
        `len(values)`.

        This inlines `fold_next`, because a call for each event is slower.
        """
        latest, at_until, until, decode, step = (
            self._latest,
            self._at_until,
            self._until,
            decode_event_fields,
            self._aggregate.step,
        )
        is_partial = bool(self._spills) or self._part != WHOLE
        absent: _Snapshot = (0, self._aggregate.decider.initial, "")
        try:
            for index in range(start, len(values)):
                event = decode(values[index])  # type: ignore[arg-type]  # None: see `_fold_checked`
                subject = event.subject
                if is_partial and self._add_to_spill(subject, values[index], offset_of, index):
                    continue
                version, state, _ = latest.get(subject, absent)
                if event.aggregateversion != version + 1:
                    return index
                time = event.time
                latest[subject] = snapshot = (version + 1, step(state, event.type, event.data), time)
                if until is not None and time <= until:
                    at_until[subject] = snapshot
        except CqrsError:
            raise
        except PROCESS_ERRORS as error:
            self._aggregate.raise_redacted(error)
        except BaseException as error:  # the aggregate's own code may raise any error
            if is_interrupt(error):
                raise
            return index
        return len(values)

    def _fold_checked(self, value: bytes | None) -> None:
        """Fold a record at which `_fold_fast` stopped; raise `FoldError` or `ValueError` with the reason."""
        event = read_event(value)
        if hash_of(event.subject.encode()) not in self._part:
            raise _foreign_event_error(event.subject)
        version, state, _ = self._latest.get(event.subject, (0, self._aggregate.decider.initial, ""))
        snapshot = (version + 1, fold_next(self._aggregate, version, state, event), event.time)
        self._latest[event.subject] = snapshot
        if self._until is not None and event.time <= self._until:
            self._at_until[event.subject] = snapshot

    @property
    def aggregate(self) -> Aggregate:
        """The aggregate whose events are folded."""
        return self._aggregate

    def rows(self) -> Iterator[AggregateRow]:
        """Yield each aggregate once, in its state at `until`. This consumes the states, so it works only once.

        Raises `ReplayFoldError` if a spilled event cannot be folded.
        """
        encode, aggregate = self._aggregate.encode_state, self._aggregate
        while True:
            events = digest_sum = 0
            for aggregate_id, (version, state, time) in self._at_until.items():
                data = encode(state)
                events += version  # each event adds one version
                digest_sum += digest.state_digest(aggregate, aggregate_id, version, data)
                yield AggregateRow(aggregate_id, version, time, data, state)
            self._total = self._total.plus(Total(len(self._at_until), events, digest_sum % digest.MODULUS))
            self._latest.clear()
            self._at_until.clear()
            if not self._spills:
                return
            self._load_spill(self._spills.pop())

    def total(self) -> Total:
        """Return the total of `rows`, which must not be called before."""
        for _ in self.rows():
            pass
        return self._total

    def close(self) -> None:
        """Delete the spill files. Idempotent."""
        self._files.close()

    def _add_to_spill(
        self, subject: str, value: bytes | None, offset_of: Callable[[int], int], index: int
    ) -> bool:
        """Write the event to the spill file of its aggregate, and return True; return False for an aggregate in memory.

        Raises `FoldError` for an aggregate outside this fold's part.
        """
        id_hash = hash_of(subject.encode())
        if self._low_hash <= id_hash < self._high_hash:
            return False
        spill = next((spill for spill in self._spills if spill.low <= id_hash < spill.high), None)
        if spill is None:
            raise _foreign_event_error(subject)
        spill.add_event(offset_of(index), value or b"")
        self._spilled_events += 1
        return True

    def _spill(self) -> None:
        """Write the aggregates with the upper half of the hashes to disk."""
        middle = (self._low_hash + self._high_hash) // 2
        if middle == self._low_hash:
            return
        spill = Spill(middle, self._high_hash, self._personal)
        self._files.callback(spill.close)
        for aggregate_id in [name for name in self._latest if hash_of(name.encode()) >= middle]:
            latest = self._latest.pop(aggregate_id)
            at_until = latest if self._at_until is self._latest else self._at_until.pop(aggregate_id, None)
            spill.add_state(
                SpilledState(
                    aggregate_id, self._encode(latest), None if at_until is None else self._encode(at_until)
                )
            )
        self._spills.append(spill)
        self._high_hash = middle

    def _load_spill(self, spill: Spill) -> None:
        """Replace the finished aggregates in memory by the aggregates of a spill file, and fold its events."""
        self._low_hash, self._high_hash = spill.low, spill.high
        for state in spill.states():
            self._latest[state.id] = self._decode(state.latest)
            if state.at_until is not None:
                self._at_until[state.id] = self._decode(state.at_until)
        for values, offsets in spill.events():
            self._spilled_events -= len(values)
            self._fold(values, offsets.__getitem__)
            if self._progress is not None:
                self._progress.report_spilled(self._spilled_events)
        spill.close()

    def _encode(self, snapshot: _Snapshot) -> tuple[int, bytes, str]:
        version, state, time = snapshot
        return version, self._aggregate.encode_state(state), time

    def _decode(self, snapshot: tuple[int, bytes, str]) -> _Snapshot:
        version, data, time = snapshot
        return version, self._aggregate.decode_state(data), time
