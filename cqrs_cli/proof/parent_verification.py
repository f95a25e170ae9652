"""Verify a parent partition up to a split, without reporting: its results are the start of the child's verification."""

from collections.abc import Callable, Iterable
from itertools import chain

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.repartitioning import Split
from cqrs_cli.proof.findings import LogName
from cqrs_cli.proof.parent_results import ParentResults
from cqrs_cli.proof.partition import Proof, Scratch
from cqrs_cli.proof.scope import Scope

#: Reads a parent's log before the split: the records of the child's keys.
ReadBelow = Callable[[LogName], Iterable[list[Record]]]


def prove_parent(
    split: Split,
    scope: Scope,
    scratch: Scratch,
    before: ParentResults,
    read: ReadBelow,
    *,
    is_continued: bool = False,
) -> ParentResults:
    """Verify a parent, starting from the results `before` of its own parents; return the results of all parents.

    Versions and ids are written to the store of `scratch`.

    `is_continued`: a checkpoint already holds all results except the outcomes.
    """
    proof = Proof(scope, scratch, inherited=before)
    for records in read("outcomes"):
        proof.outcomes.read(records)
    for records in () if is_continued else read("events"):
        proof.events.read(records)
    decided = proof.decided(split.commands, split.commands, scope.starts.get("commands", 0))
    left = before.after(split, scratch.outcomes, decided.outcomes)
    if is_continued:
        return left
    ends: dict[LogName, int] = {"events": split.events, "outcomes": split.outcomes, "dead-letters": 0}
    proof.conclude(chain.from_iterable(read("commands")), decided, ends)
    assert proof.carried is not None
    return left.left_by(split, proof.carried)
