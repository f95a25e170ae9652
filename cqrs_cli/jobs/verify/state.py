"""Comparing a live shard with its events folded anew, in bounded memory: both rest in LMDB, sorted alike.

It costs a second reading of the events, and as much temporary disk as the shard takes.
"""

import heapq
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import Folded, FoldError, fold_event
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.jobs.replay.shards import Shards, not_ours
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.owner.state_cache import APPLY_EVERY, StateCache
from cqrs_cli.proof.partition import Proof
from cqrs_cli.state.encoding import MAX_KEY, aggregate_key, shorten
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import open_readonly
from cqrs_cli.state.shutdown_marker import MARKER_FILE, ShutdownMarker
from cqrs_cli.state.store import Positions

#: With so many aggregates whose events cannot be folded it is the code that does not fit.
HOPELESS = 1000

Items = Iterator[tuple[str, StoredState]]


class Compared(NamedTuple):
    """What came of one shard: how many aggregates it has, or why none was compared.

    `behind`: it could be compared only up to the first of these offsets of the events, which end at the second.
    """

    aggregates: int = 0
    skipped: str = ""
    behind: tuple[int, int] | None = None


class StateCheck:
    """The aggregates of one partition as their events give them: up to where its shard is, then to the end."""

    def __init__(self, connection: Connection, topics: Topics, partition: int, aggregate: Aggregate) -> None:
        self._connection = connection
        self._topic = topics.events
        self._partition = partition
        self._aggregate = aggregate
        self._broken: set[str] = set()  # events of these cannot be folded, which is told of the first

    def compare(self, shards: Shards, proof: Proof, decided: int, end: int) -> Compared:
        """Add every aggregate that differs from the partition's shard to the findings of `proof`, and every event below
        `end` that cannot be folded, wherever the shard is. `decided`: the commands below it are.
        """
        with ExitStack() as stack:
            with tempfile.TemporaryDirectory(prefix="cqrs-verify-") as folder:
                store = LmdbStore(Path(folder), window_ms=1)
            stack.callback(store.abandon)
            cache = StateCache(self._aggregate, store, store.token())
            compared, positions = self._compare(shards, proof, cache, store)
            if not self._hopeless:
                self._fold(cache, end, proof)
            folded = cache.positions.events
            if (
                compared.skipped
                or folded <= positions.events
                or self._may_catch_up(shards, positions, decided)
            ):
                return compared
            return compared._replace(behind=(positions.events, folded))

    def _compare(
        self, shards: Shards, proof: Proof, cache: StateCache, store: LmdbStore
    ) -> tuple[Compared, Positions]:
        """What came of the shard, and where it is.

        It may be at work meanwhile: its owner moves on, so the long stretch is folded first, then the short rest while
        the shard is held in one look.
        """
        path = shards.folder / str(self._partition)
        shard = open_readonly(path)
        if shard is None:
            return Compared(skipped=f"there is no shard to trust in {path}"), Positions()
        with closing(shard):
            if skipped := not_ours(shard.identity(), shards, self._partition, self._aggregate):
                return Compared(skipped=skipped), Positions()
            self._fold(cache, shard.positions().events, proof)
            with shard.snapshot() as (positions, items):
                end = self._fold(cache, positions.events, proof)
                if end < positions.events:
                    what = f"is the end of the log, and the shard has folded up to {positions.events}"
                    proof.findings.add("events", end, what)
                if self._hopeless:
                    return Compared(skipped="its events cannot be folded by this code"), positions
                for name, rests, folded in side_by_side(items, store.items()):
                    if name not in self._broken and rests != folded:
                        self._differs(proof, end, name, rests, folded)
            return Compared(shard.count()), positions

    @property
    def _hopeless(self) -> bool:
        return len(self._broken) > HOPELESS

    def _may_catch_up(self, shards: Shards, positions: Positions, decided: int) -> bool:
        """Whether what the shard lacks is what an owner at work has committed, and not applied yet."""
        if not positions.events or decided - positions.commands > APPLY_EVERY:
            return False
        mark = shards.folder / str(self._partition) / MARKER_FILE
        try:
            return msgspec.json.decode(mark.read_bytes(), type=ShutdownMarker).state == "working"
        except (OSError, msgspec.DecodeError):
            return False

    def _fold(self, cache: StateCache, end: int, proof: Proof) -> int:
        """Go on to offset `end`, or as far as the log goes; says how far that is."""
        at, partition = cache.positions.events, self._partition
        bounds = readers.bounds(self._connection, self._topic, [partition], "read_uncommitted")[partition]
        end = min(end, bounds[1])
        for records in readers.read(self._connection, self._topic, partition, max(at, bounds[0]), end):
            with cache.reading():
                states = self._folded(cache, records, proof)
            cache.fold(cache.positions._replace(events=records[-1].offset + 1), states)
            if self._hopeless:
                break
        return end

    def _folded(self, cache: StateCache, records: list[Record], proof: Proof) -> dict[str, Folded]:
        states: dict[str, Folded] = {}
        for record in records:
            try:
                event = read_event(record.value)
            except ValueError:
                continue  # told by the proof
            subject = event.subject
            if subject in self._broken:
                continue
            try:
                before = states.get(subject) or cache.state(subject)
                after = fold_event(self._aggregate, before, event)
            except (FoldError, ValueError) as error:
                proof.findings.add("events", record.offset, f"cannot be folded: {error}")
                self._broken.add(subject)
                continue
            if after is not before:
                states[subject] = after
        return states

    def _differs(
        self, proof: Proof, at: int, name: str, rests: StoredState | None, folded: StoredState | None
    ) -> None:
        """Name the aggregate's last event."""
        last = folded or rests
        place = None if last is None else proof.event_at(last.offset, last.eventindex)
        proof.findings.add(
            "events",
            at if place is None else place,
            f"leaves {name!r} {_spell(folded)}, in the shard it is {_spell(rests)}",
        )


def side_by_side(one: Items, other: Items) -> Iterator[tuple[str, StoredState | None, StoredState | None]]:
    """Every aggregate of two stores, which give them in the order of their keys."""
    merged = heapq.merge(_keyed(0, one), _keyed(1, other))
    for _, same in groupby(merged, itemgetter(0)):
        found: list[StoredState | None] = [None, None]
        name = ""
        for _, side, name, saved in same:  # noqa: B007  (the last one's, which is the first one's too)
            found[side] = saved
        yield name, found[0], found[1]


def _keyed(side: int, items: Items) -> Iterator[tuple[bytes, int, str, StoredState]]:
    for name, saved in items:
        key = aggregate_key(name)
        yield key if len(key) <= MAX_KEY else shorten(key), side, name, saved


def _spell(saved: StoredState | None) -> str:
    if saved is None:
        return "without events"
    text = saved.state.decode(errors="replace")
    short = text if len(text) <= 200 else f"{text[:200]}…"
    return f"at version {saved.version} by command {saved.offset}: {short}"
