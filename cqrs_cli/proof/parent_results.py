"""The results of the parents' verifications, from which the verification of a child partition starts."""

from collections.abc import Mapping
from typing import NamedTuple

from cqrs_cli.core.messages.repartitioning import Split
from cqrs_cli.proof.positions import OpenDeferral, ProvedPlace, proved_place, read_place
from cqrs_cli.proof.traces import Index
from cqrs_cli.proof.verification_checkpoint import VerificationCheckpoint


class Parent(NamedTuple):
    """A parent's outcomes before the split, of the child's keys.

    `known_from`: the first command whose outcome is not deleted yet.
    """

    outcomes: Index
    known_from: int


class ParentResults(NamedTuple):
    """The results of all parents. Versions and ids are in the store of the child's verification."""

    parents: Mapping[int, Parent] = {}
    open: Mapping[ProvedPlace, OpenDeferral] = {}
    has_begin: bool = True  # their events are complete from the first event on
    clock: int = 0  # ms

    def after(self, split: Split, outcomes: Index, known_from: int) -> "ParentResults":
        """Return the results with the outcomes of one more parent."""
        parents = {**self.parents, split.partition: Parent(outcomes, known_from)}
        return self._replace(parents=parents, clock=max(self.clock, split.clock))

    def left_by(self, split: Split, carried: VerificationCheckpoint) -> "ParentResults":
        """Return the results with the deferred commands that are open where a parent's verification ends."""
        waiting = {
            proved_place(place, split.partition) if isinstance(place, int) else place: one
            for place, one in carried.deferred.items()
        }
        return self._replace(open=waiting, has_begin=carried.has_begin)


class FamilyIndex:
    """The index entries of the outcomes of a partition and its parents, by position."""

    def __init__(self, own: Index, parents: Mapping[int, Parent]) -> None:
        self._own, self._parents = own, parents

    def get(self, command: ProvedPlace) -> bytes | None:
        """Return the index entry of a command's outcome, or None."""
        if isinstance(command, int):
            return self._own.get(command)
        partition, offset = read_place(command) or (-1, 0)
        parent = self._parents.get(partition)
        return None if parent is None else parent.outcomes.get(offset)
