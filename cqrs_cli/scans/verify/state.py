"""Compares a shard with the states folded from the events, for `verify`. An owner may be using the shard.

The folded states are in a temporary LMDB store. Store and shard are read in the same order, so memory is bounded. The
comparison reads the events a second time, and needs as much temporary disk as the shard.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import FoldError, UnreadableEventError, VersionedState, fold_event
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.history_check import history_mismatch
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import KeyFilter
from cqrs_cli.kafka.topics.topics import AggregateTopics
from cqrs_cli.ownership.timing import APPLY_EVERY
from cqrs_cli.proof.partition import PartitionVerification
from cqrs_cli.scans.verify.pairs import Pairs, merge_aggregates
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shard import open_readonly
from cqrs_cli.state.shutdown_marker import MARKER_FILE, ShutdownMarker
from cqrs_cli.state.store import Positions

#: The comparison ends if more aggregates than this number cannot be folded: then the code does not match the log.
MAX_UNREADABLE = 1000


class ShardComparison(NamedTuple):
    """The comparison with one shard."""

    aggregates: int = 0  # number of aggregates in the shard
    skip_reason: str = ""  # why the shard was not compared; empty if it was compared
    #: (event offset up to which the shard was compared, end of the events) of a shard that lags, as `(1200, 5000)`.
    behind: tuple[int, int] | None = None


class StateCheck:
    """Folds the aggregates of one partition from their events: first up to the shard's position, to compare them with
    the shard, then to the end, to find events that cannot be folded.
    """

    def __init__(
        self,
        log: PartitionLog,
        topics: AggregateTopics,
        aggregate: Aggregate,
        shards_folder: Path,
        read: Callable[[int, int], Iterator[list[Record]]],
        parent_events: Iterable[tuple[int, list[Record]]] = (),
        key_filter: KeyFilter | None = None,
    ) -> None:
        """`read` yields the events between two offsets. `parent_events`: batches (parent partition, events).
        `key_filter`: matches the partition's keys; None: all keys.
        """
        self._log = log
        self._topics = topics
        self._aggregate = aggregate
        self._path = shards_folder / str(log.partition)
        self._read, self._parent_events, self._key_filter = read, parent_events, key_filter
        #: Aggregates with an event that cannot be folded; only the first such event of each is reported.
        self._unreadable: set[str] = set()

    def compare(self, verification: PartitionVerification, decided_lower: int, end: int) -> ShardComparison:
        """Add to the findings of `verification` each aggregate that differs from the partition's shard.

        Also add each event before offset `end` that cannot be folded. All commands before the offset `decided_lower`
        are decided.
        """
        with ExitStack() as stack:
            with tempfile.TemporaryDirectory(prefix="cqrs-verify-") as folder:
                store = LmdbStore(Path(folder), window_ms=1)
            stack.callback(store.close_without_sync)
            cache = StateCache(self._aggregate, store, store.token())
            for partition, records in self._parent_events:
                with cache.reading():
                    states = self._fold_records(cache, records, verification, partition)
                cache.fold(cache.positions, states)
            compared, positions = self._compare(verification, cache, store)
            if not self._has_too_many_errors:
                self._fold(cache, end, verification)
            folded = cache.positions.events
            if (
                compared.skip_reason
                or folded <= positions.events
                or self._may_catch_up(positions, decided_lower)
            ):
                return compared
            return compared._replace(behind=(positions.events, folded))

    def _compare(
        self, verification: PartitionVerification, cache: StateCache, store: LmdbStore
    ) -> tuple[ShardComparison, Positions]:
        """Compare with the shard, and return the result and the shard's positions.

        The owner may write to the shard during the comparison, so a snapshot of the shard is read. Most events are
        folded before the snapshot is opened, so that it is open for a short time.
        """
        shard = open_readonly(self._path)
        if shard is None:
            return ShardComparison(skip_reason=f"there is no usable shard in {self._path}"), Positions()
        with closing(shard):
            if skip_reason := self._mismatch(shard.identity()):
                return ShardComparison(skip_reason=skip_reason), Positions()
            shard_positions = shard.positions()
            if mismatch := history_mismatch(
                self._log, shard_positions.last_event, shard_positions.last_outcome
            ):
                return ShardComparison(
                    skip_reason=f"the next run rebuilds the shard: {mismatch}"
                ), Positions()
            self._fold(cache, shard.positions().events, verification)
            with shard.snapshot() as (positions, items):
                end = self._fold(cache, positions.events, verification)
                if end < positions.events:
                    problem = f"is the end of the log, but the shard has folded up to {positions.events}"
                    verification.findings.add_violation("events", end, problem)
                if self._has_too_many_errors:
                    return ShardComparison(skip_reason="its events cannot be folded by this code"), positions
                self._report_all(verification, end, merge_aggregates(items, store.items()))
            return ShardComparison(shard.count()), positions

    def _mismatch(self, stored_identity: bytes) -> str:
        """Return why a shard cannot be compared: another log, or folded by other code. Empty if it can be compared."""
        try:
            identity = msgspec.json.decode(stored_identity, type=Identity)
        except msgspec.DecodeError:
            return "the shard has no identity: the next run rebuilds it"
        expected = Identity(
            cluster_id=self._topics.cluster_id,
            topics={str(kind): topic_id for kind, topic_id in self._topics.ids.items()},
            partition=self._log.partition,
            partitions=self._topics.partitions,
            schema=self._aggregate.schema_digest,
            revision=self._aggregate.decider.revision,
            window_ms=identity.window_ms,  # any window is accepted, because command ids are not compared
        )
        differences = expected.differences(stored_identity)
        return f"the next run rebuilds the shard: {differences}" if differences else ""

    @property
    def _has_too_many_errors(self) -> bool:
        return len(self._unreadable) > MAX_UNREADABLE

    def _may_catch_up(self, positions: Positions, decided_lower: int) -> bool:
        """True if the shard may lack only events that a running owner has committed, but not yet applied."""
        if not positions.events or decided_lower - positions.commands > APPLY_EVERY:
            return False
        try:
            return (
                msgspec.json.decode((self._path / MARKER_FILE).read_bytes(), type=ShutdownMarker).state
                == "working"
            )
        except (OSError, msgspec.DecodeError):
            return False

    def _fold(self, cache: StateCache, end: int, verification: PartitionVerification) -> int:
        """Fold events up to the lower of the offset `end` and the end of the log; return this offset."""
        start, last = self._log.bounds("events", "read_uncommitted")
        end = min(end, last)
        for records in self._read(max(cache.positions.events, start), end):
            with cache.reading():
                states = self._fold_records(cache, records, verification)
            cache.fold(cache.positions._replace(events=records[-1].offset + 1), states)
            if self._has_too_many_errors:
                break
        return end

    def _fold_records(
        self,
        cache: StateCache,
        records: list[Record],
        verification: PartitionVerification,
        parent: int | None = None,
    ) -> dict[str, VersionedState]:
        states: dict[str, VersionedState] = {}
        for record in records if self._key_filter is None else self._key_filter.matching(records):
            try:
                event = read_event(record.value)
            except ValueError:
                continue  # the verification reports this event
            subject = event.subject
            if subject in self._unreadable:
                continue
            try:
                before = states.get(subject) or cache.state(subject)
                after = fold_event(self._aggregate, before, event)
            except (FoldError, ValueError) as error:
                if not isinstance(error, UnreadableEventError):  # the verification reports this event
                    violation_offset = record.offset if parent is None else 0
                    context = "" if parent is None else f" after partition {parent} offset {record.offset}"
                    verification.findings.add_violation(
                        "events", violation_offset, f"cannot be folded{context}: {error}"
                    )
                self._unreadable.add(subject)
                continue
            if after is not before:
                states[subject] = after
        return states

    def _report_all(self, verification: PartitionVerification, end: int, pairs: Pairs) -> None:
        """Report each difference. If another `evolve` caused several differences, report the first and their number."""
        code_differences = 0
        for aggregate_id, stored_state, folded in pairs:
            redacted = (
                stored_state
                if stored_state is None
                else self._redacted(verification, end, aggregate_id, stored_state)
            )
            if aggregate_id in self._unreadable or redacted == folded:
                continue
            code_differences += (is_by_code := _differ_by_code(redacted, folded))
            if not is_by_code or code_differences == 1:
                self._report(verification, end, aggregate_id, redacted, folded)
        if code_differences > 1:
            problem = (
                f"leaves {code_differences - 1} more aggregates with another state of the same version: other code "
                "has folded the shard; raise the decider's revision, so that the next run rebuilds it"
            )
            verification.findings.add_violation("events", end, problem)

    def _redacted(
        self, verification: PartitionVerification, end: int, aggregate_id: str, stored_state: StoredState
    ) -> StoredState:
        """Return a shard's state with redacted personal values, to be compared with the folded state. Report violations
        in its encrypted values.
        """
        if not self._aggregate.has_personal_fields:
            return stored_state
        for problem in verification.keys.find_state_problems(
            aggregate_id, self._aggregate.state, stored_state
        ):
            event_offset = verification.find_event_offset(
                stored_state.offset, stored_state.eventindex, aggregate_id
            )
            verification.findings.add_violation(
                "events",
                end if event_offset is None else event_offset,
                f"leaves {aggregate_id!r} in a shard that {problem}",
            )
        return replace(
            stored_state,
            state=self._aggregate.personal.redact_data(self._aggregate.state, stored_state.state),
        )

    def _report(
        self,
        verification: PartitionVerification,
        end: int,
        aggregate_id: str,
        redacted: StoredState | None,
        folded: StoredState | None,
    ) -> None:
        """Add a violation at the offset of the aggregate's last event, or at `end` if this event is unknown."""
        last = folded or redacted
        event_offset = (
            None
            if last is None
            else verification.find_event_offset(last.offset, last.eventindex, aggregate_id)
        )
        verification.findings.add_violation(
            "events",
            end if event_offset is None else event_offset,
            f"leaves {aggregate_id!r} {_describe(folded)}, in the shard it is {_describe(redacted)}",
        )


def _differ_by_code(redacted: StoredState | None, folded: StoredState | None) -> bool:
    """True if two different states have the same last event. The cause is then another `evolve`, or a bad disk."""
    if redacted is None or folded is None:
        return False
    return (redacted.version, redacted.offset, redacted.eventindex) == (
        folded.version,
        folded.offset,
        folded.eventindex,
    )


def _describe(state: StoredState | None) -> str:
    if state is None:
        return "without events"
    text = state.state.decode(errors="replace")
    short = text if len(text) <= 200 else f"{text[:200]}…"
    return f"at version {state.version} by command {state.offset}: {short}"
