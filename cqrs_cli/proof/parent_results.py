"""The results of the parents' verifications, from which the verification of a child partition starts."""

from collections.abc import Mapping
from typing import NamedTuple

from cqrs_cli.proof.index_entries import Index
from cqrs_cli.proof.positions import CommandPosition, OpenDeferral, command_position, parse_parent_position
from cqrs_cli.proof.verification_checkpoint import VerificationCheckpoint


class ParentOutcomes(NamedTuple):
    """The outcomes for the child's keys that a parent wrote before the split."""

    outcomes: Index
    first_known: int  # the first command whose outcome is not deleted yet


class ParentResults(NamedTuple):
    """The results of all parents. Their versions and command ids are in the store of the child's verification."""

    parents: Mapping[int, ParentOutcomes] = {}  # parent partition → outcomes
    open_deferrals: Mapping[CommandPosition, OpenDeferral] = {}
    events_complete: bool = True  # no event of the parents was deleted before a verification read it
    clock: int = 0  # the greatest timestamp of the parents' decisions before their splits, ms

    def with_parent(self, partition: int, outcomes: Index, first_known: int, clock: int) -> "ParentResults":
        """Return the results with the outcomes of one more parent. `clock`: the parent's clock at the split, ms."""
        parents = {**self.parents, partition: ParentOutcomes(outcomes, first_known)}
        return self._replace(parents=parents, clock=max(self.clock, clock))

    def with_open_deferrals(self, partition: int, checkpoint: VerificationCheckpoint) -> "ParentResults":
        """Return the results with the commands that are still deferred at the end of a parent's verification."""
        open_deferrals = {
            command_position(position, partition) if isinstance(position, int) else position: deferral
            for position, deferral in checkpoint.open_deferrals.items()
        }
        return self._replace(open_deferrals=open_deferrals, events_complete=checkpoint.events_complete)


class FamilyIndex:
    """Finds the index entries of outcomes in a partition and its parents, by command position."""

    def __init__(self, own: Index, parents: Mapping[int, ParentOutcomes]) -> None:
        self._own, self._parents = own, parents

    def find_entry(self, command: CommandPosition) -> bytes | None:
        """Return the index entry of a command's outcome, or None."""
        if isinstance(command, int):
            return self._own.find_entry(command)
        partition, offset = parse_parent_position(command) or (-1, 0)
        parent = self._parents.get(partition)
        return None if parent is None else parent.outcomes.find_entry(offset)
