"""Partitions in memory that grow from 1 to 2 to 4: the records of their owners, and the verification of each.

A key is a number, which is its hash.
"""

import dataclasses
import json
from collections import defaultdict
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from cqrs_cli.core.context import BatchContext, OutputRecord
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.fold import VersionedState, decode_event
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import DedupEntry
from cqrs_cli.keyspace.key_history import KeyHistory
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.records import Begun, Grow, LineageRecord, Split
from cqrs_cli.proof.findings import LogName, Report
from cqrs_cli.proof.parent_results import ParentResults
from cqrs_cli.proof.parent_verification import verify_parent
from cqrs_cli.proof.partition import PartitionVerification, Scratch
from cqrs_cli.proof.scope import Scope
from cqrs_cli.state.entry_index import EntryIndex
from cqrs_cli.state.memory import MemoryStore
from tests.proof.history import AGGREGATE, NOW, TOPIC, WINDOW, PlannedCommand, command_document, plan_command
from tests.support.commands import FAR_FUTURE
from tests.support.foreign_records import changed_record

Log = defaultdict[int, list[Record]]


def partition_among(key: bytes, count: int) -> int:
    """Return the partition of a key; other keys than numbers belong to partition 0."""
    return int(key) % count if key.isdigit() else 0


class RepartitionedHistory:
    """One aggregate's partitions. All owners share a memory, so a child partition knows what its parent knew."""

    def __init__(self) -> None:
        self.lineage = PartitionLineage((1,))
        self.lineage_records: list[LineageRecord] = []  # the records of the lineage log
        self.logs: dict[LogName, Log] = {
            kind: defaultdict(list) for kind in ("commands", "outcomes", "events", "dead-letters", "deferred")
        }
        self._states: dict[str, VersionedState] = {}
        self._ids: dict[tuple[str, str], tuple[int, DedupEntry]] = {}
        self._entries: dict[int, list[Deferral]] = defaultdict(list)
        self._time = NOW

    def decide(self, partition: int, *planned_commands: PlannedCommand, **faults: Any) -> None:
        """Send commands to a partition, and let its owner decide all its commands.

        `faults` change the owner's context.
        """
        for planned in planned_commands:
            id = planned.id or f"c{len(self.logs['commands'][partition])}.{partition}"
            self._send(partition, planned.subject.encode(), command_document(planned, id))
        context = dataclasses.replace(self._context(partition), **faults)
        decided = decide_batch(AGGREGATE, self._undecided(partition), context)
        self._states |= decided.states
        self._ids |= {key: (partition, entry) for key, entry in decided.dedup_entries.items()}
        self._append("outcomes", partition, decided.outcomes)
        self._append("events", partition, decided.events)
        for value, key, timestamp, headers in decided.dead_letters:
            log = self.logs["dead-letters"][partition]
            log.append(Record(len(log), timestamp, key, value, headers))
        self._append_entries(
            partition, *(entry for entry in decided.deferral_changes.values() if entry is not None)
        )
        for forward in decided.forwards:
            self._send(forward.partition, forward.key, forward.value)

    def split(self, partition: int, new_count: int) -> None:
        """Let a partition decide its commands and split, and activate its targets."""
        self.decide(partition)
        old_count = self.lineage.active_count(partition)
        assert old_count is not None
        self._record(Grow(self.lineage.counts[-1], new_count))
        commands, events, outcomes, deferred = (
            self._end(kind, partition) for kind in ("commands", "events", "outcomes", "deferred")
        )
        clock = self._clock(partition)
        self._record(Split(partition, old_count, new_count, commands, events, outcomes, deferred, clock))
        for target in range(new_count):
            if self.lineage.phase(target, new_count) == "adopt":
                self._append_entries(target, *self._inherited_entries(partition, new_count, target))
                self._record(Begun(target))

    def verify(self, partition: int) -> Report:
        with ExitStack() as stack:
            folder, store = Path(stack.enter_context(TemporaryDirectory())), MemoryStore(WINDOW)
            inherited = None
            if splits := self.lineage.inherited_splits(partition):
                inherited = ParentResults()
                for split in splits:
                    parent = self._scope(split.partition, key_history=None, for_child=True)
                    parent_scratch = _scratch(stack, folder / str(split.partition), store)
                    read = partial(self._records_for_target, split, partition)
                    inherited = verify_parent(split, parent, parent_scratch, inherited, read)
            key_history = KeyHistory(self.lineage, partition, partition_among)
            proof = PartitionVerification(
                self._scope(partition, key_history=key_history),
                _scratch(stack, folder / "own", store),
                None,
                inherited,
            )
            proof.outcomes.read(self.logs["outcomes"][partition])
            proof.events.read(self.logs["events"][partition])
            proof.dead_letters.read(self.logs["dead-letters"][partition])
            proof.deferred.read(self.logs["deferred"][partition])
            end = self._end("commands", partition)
            proof.check_commands(
                iter(self.logs["commands"][partition]), proof.find_decided_range(end, end, 0)
            )
            proof.check_deferred_topic(())
            return proof.report()

    def edit(self, partition: int, index: int, data: dict[str, Any]) -> None:
        """Alter the data of an outcome."""
        log = self.logs["outcomes"][partition]
        log[index] = changed_record(log[index], data)

    def change_split(self, **ends: int) -> None:
        """Alter the record of the first split."""
        first, *other_splits = self.lineage.splits
        splits = (replace(first, **ends), *other_splits)
        self.lineage = PartitionLineage(self.lineage.counts, splits, self.lineage.activated)

    def violations(self) -> list[str]:
        """Return the violations of all partitions."""
        reports = {partition: self.verify(partition) for partition in range(self.lineage.counts[-1])}
        return [
            f"{kind} {number}@{offset} {problem}"
            for number, report in reports.items()
            for kind, offset, problem in report.violations
        ]

    def _record(self, record: LineageRecord) -> None:
        self.lineage_records.append(record)
        self.lineage = self.lineage.with_record(record)

    def _clock(self, partition: int) -> int:
        """Return the greatest timestamp of a partition's decisions, including imported decisions."""
        inherited = [split.clock for split in self.lineage.inherited_splits(partition)]
        return max([0, *inherited, *(outcome.timestamp for outcome in self.logs["outcomes"][partition])])

    def _scope(self, partition: int, **options: Any) -> Scope:
        starts: dict[LogName, int] = dict.fromkeys(self.logs, 0)
        read = partial(decode_event, AGGREGATE)
        ends = {kind: self._end(kind, partition) for kind in self.logs}
        return Scope("tally", TOPIC, partition, starts, WINDOW, decode_event=read, ends=ends, **options)

    def _context(self, partition: int) -> BatchContext:
        key_history = KeyHistory(self.lineage, partition, partition_among)
        end = self._end("commands", partition)
        return BatchContext(
            partition,
            self._states.get,
            lambda *key: self._remembered(partition, key),
            lambda: 0,
            lambda key: key_history.partition_at_command(key, end),
            TOPIC,
            WINDOW,
            forward_target_of=lambda key: key_history.forward_target(key, end),
        )

    def _remembered(self, partition: int, key: tuple[str, str]) -> DedupEntry | None:
        partition_before, entry = self._ids.get(key, (partition, None))
        return (
            entry
            if entry is None or partition_before == partition
            else replace(entry, partition=partition_before)
        )

    def _undecided(self, partition: int) -> list[Record]:
        ids = [json.loads(outcome.value or b"")["id"] for outcome in self.logs["outcomes"][partition]]
        decided = {int(id.split("/")[1]) for id in ids}
        return [command for command in self.logs["commands"][partition] if command.offset not in decided]

    def _records_for_target(self, split: Split, target: int, kind: LogName) -> list[list[Record]]:
        end = getattr(split, kind)
        count = self.lineage.initial_count(target)
        log = self.logs[kind][split.partition]
        return [
            [
                record
                for record in log
                if record.offset < end and partition_among(record.key or b"0", count) == target
            ]
        ]

    def _inherited_entries(self, parent: int, count: int, target: int) -> list[Deferral]:
        entries = [
            entry
            for entry in self._entries[parent]
            if partition_among(entry.subject.encode(), count) == target
        ]
        return [entry.passed_on_by(parent) for entry in entries]

    def _append_entries(self, partition: int, *entries: Deferral) -> None:
        for entry in entries:
            log = self.logs["deferred"][partition]
            log.append(Record(len(log), 0, entry.key.encode(), entry.value()))
            self._entries[partition].append(entry)

    def _send(self, partition: int, key: bytes, value: bytes) -> None:
        self._time += 1
        log = self.logs["commands"][partition]
        log.append(Record(self._end("commands", partition), self._time, key, value, [*HEADERS]))

    def _append(self, kind: LogName, partition: int, outputs: list[OutputRecord]) -> None:
        for value, key, timestamp in outputs:
            log = self.logs[kind][partition]
            log.append(Record(self._end(kind, partition), timestamp, key, value, [*HEADERS]))

    def _end(self, kind: LogName, partition: int) -> int:
        log = self.logs[kind][partition]
        return log[-1].offset + 1 if log else 0


def repartitioned_history() -> RepartitionedHistory:
    """Return partitions after two repartitionings.

    Key 1 has moved from 0 to 1, and key 3 on to 3. Each key has a repetition, a deferred and a late command."""
    history = RepartitionedHistory()
    history.decide(0, plan_command(1, "0"), plan_command(2, "1", "one"), plan_command(1, "3", "three"))
    history.decide(
        0, plan_command(1, "3", "late", notbefore=FAR_FUTURE), plan_command(1, "2", notbefore=FAR_FUTURE)
    )
    history.split(0, 2)
    history.decide(
        0, plan_command(1, "0"), plan_command(1, "1"), plan_command(1, "3"), plan_command(2, "1", "one")
    )
    history.decide(1, plan_command(1, "1"), plan_command(1, "3", "three"))
    history.split(0, 4)
    history.split(1, 4)
    history.decide(0, plan_command(1, "3"), plan_command(-1, "2"))
    history.decide(1, plan_command(1, "3"), plan_command(1, "3", "three"))
    history.decide(3, plan_command(1, "3"))
    history.decide(2, plan_command(1, "2"))
    return history


def _scratch(stack: ExitStack, folder: Path, store: MemoryStore) -> Scratch:
    indexes = []
    for name in "oel":
        (folder / name).mkdir(parents=True)
        indexes.append(stack.enter_context(closing(EntryIndex(folder / name))))
    return Scratch(indexes[0], indexes[1], indexes[2], store)
