"""The inheritance of a child in its proof: what the proofs of its parents leave at the splits that made it."""

from collections.abc import Mapping
from typing import NamedTuple

from cqrs_cli.core.messages.growth import Split
from cqrs_cli.proof.carried import Carried
from cqrs_cli.proof.places import Open, ProvedPlace, proved_place, read_place
from cqrs_cli.proof.traces import Index


class Parent(NamedTuple):
    """A parent's outcomes below the split, of the keys that the child has.

    `known_from`: the first command whose outcome is not deleted yet.
    """

    outcomes: Index
    known_from: int


class Inherited(NamedTuple):
    """All that the parents leave. Versions and ids are in the store of the child's proof."""

    parents: Mapping[int, Parent] = {}
    open: Mapping[ProvedPlace, Open] = {}
    has_begin: bool = True  # their events were there from the first one on
    clock: int = 0  # ms

    def after(self, split: Split, outcomes: Index, known_from: int) -> "Inherited":
        """The same with the outcomes of one more parent."""
        parents = {**self.parents, split.partition: Parent(outcomes, known_from)}
        return self._replace(parents=parents, clock=max(self.clock, split.clock))

    def left_by(self, split: Split, carried: Carried) -> "Inherited":
        """The same with the commands that wait when the proof of a parent ends at its split."""
        waiting = {
            proved_place(place, split.partition) if isinstance(place, int) else place: one
            for place, one in carried.deferred.items()
        }
        return self._replace(open=waiting, has_begin=carried.has_begin)


class FamilyIndex:
    """The traces of a partition's outcomes and of its parents' outcomes, to be looked up by place."""

    def __init__(self, own: Index, parents: Mapping[int, Parent]) -> None:
        self._own, self._parents = own, parents

    def get(self, command: ProvedPlace) -> bytes | None:
        """The trace of a command."""
        if isinstance(command, int):
            return self._own.get(command)
        partition, offset = read_place(command) or (-1, 0)
        parent = self._parents.get(partition)
        return None if parent is None else parent.outcomes.get(offset)
