"""Verifies the parents of a child partition up to their splits, before the child is verified.

The child needs the versions and ids of its parents. Violations of the parents are not reported again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import KeyFilter
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.keyspace.records import Split
from cqrs_cli.ownership.claim import Claim, parse_claim
from cqrs_cli.proof.findings import LogName
from cqrs_cli.proof.parent_results import ParentResults
from cqrs_cli.proof.parent_verification import verify_parent
from cqrs_cli.proof.partition import Scratch
from cqrs_cli.proof.scope import Loss, Scope
from cqrs_cli.scans.verify.scratch import with_new_indexes

#: Yields the batches of a log between two offsets: (logs of a partition, kind, start, end).
ReadLog = Callable[[PartitionLog, Kind, int, int], Iterator[list[Record]]]


class Parents(NamedTuple):
    """The parents of a child partition."""

    log: PartitionLog  # logs of the child
    splits: Sequence[Split]  # splits of the parents, the oldest first
    key_filter: KeyFilter  # matches the keys that the child got from its parents
    read: ReadLog

    def offset_count(self) -> int:
        """Return the number of offsets of the parents' logs to read."""
        return sum(max(0, end - start) for split in self.splits for start, end in self._spans(split).values())

    def inherit(
        self, scope: Scope, scratch: Scratch, stack: ExitStack, *, is_continued: bool
    ) -> ParentResults:
        """Verify the parents, and write versions and ids to the child's store in `scratch`.

        `scope`: the scope of the child. `is_continued`: the child continues from a checkpoint, which has all results
        except the parents' outcomes.
        """
        inherited = ParentResults()
        for split in self.splits:
            spans, parent_scratch = self._spans(split), with_new_indexes(stack, scratch)
            read = partial(self._read, split, spans)
            parent = self._scope(scope, split, spans)
            inherited = verify_parent(
                split, parent, parent_scratch, inherited, read, is_continued=is_continued
            )
        return inherited

    def events(self) -> Iterator[tuple[int, list[Record]]]:
        """Yield the events that the child inherits, in batches: (parent partition, records)."""
        for split in self.splits:
            for records in self._read(split, self._spans(split), "events"):
                yield split.partition, records

    def _parent(self, split: Split) -> PartitionLog:
        return replace(self.log, partition=split.partition)

    def _spans(self, split: Split) -> dict[Kind, tuple[int, int]]:
        """Return the start and end offset of each log of a parent, up to the split."""
        ends: dict[Kind, int] = {
            "commands": split.commands,
            "events": split.events,
            "outcomes": split.outcomes,
        }
        parent = self._parent(split)
        bounds = {kind: parent.bounds(kind, "read_uncommitted") for kind in KINDS}
        # `min`: a split after the end of a log is a violation, which the parent's own verification reports.
        return {kind: (start, min(ends.get(kind, 0), end)) for kind, (start, end) in bounds.items()}

    def _read(
        self, split: Split, spans: dict[Kind, tuple[int, int]], kind: LogName
    ) -> Iterator[list[Record]]:
        return map(self.key_filter.matching, self.read(self._parent(split), kind, *spans[kind]))

    def _scope(self, scope: Scope, split: Split, spans: dict[Kind, tuple[int, int]]) -> Scope:
        """Return the scope of a parent. The parent's own verification checks key partitions and event shapes."""
        parent = self._parent(split)
        claim = parse_claim(parent.committed_position().metadata)
        return replace(
            scope,
            partition=split.partition,
            starts={kind: start for kind, (start, _) in spans.items()},
            partition_of=lambda key: None,
            loss=loss_of(claim),
            command_at=lambda offset: parent.first_record("commands", offset, offset + 1),
            decode_event=lambda event: None,
            key_history=None,
            for_child=True,
        )


def find_parents(key_space: KeySpace, log: PartitionLog, read: ReadLog) -> Parents | None:
    """Return the parents of the log's partition; None for a partition without parents, or before the parent's split."""
    splits = key_space.inherited_splits(log.partition)
    return Parents(log, splits, key_space.inherited_keys(log.partition), read) if splits else None


def loss_of(claim: Claim | None) -> Loss | None:
    """Return the accepted loss in the last claim of a partition, or None."""
    accepted = None if claim is None else claim.accepted
    return None if accepted is None else Loss(accepted.offset, accepted.events[1], accepted.outcomes)
