"""Verifies a parent partition up to a split, as the start of its child's verification. Reports no violations."""

from collections.abc import Callable, Iterable
from itertools import chain

from cqrs_cli.core.messages.record import Record
from cqrs_cli.keyspace.records import Split
from cqrs_cli.proof.findings import LogName
from cqrs_cli.proof.parent_results import ParentResults
from cqrs_cli.proof.partition import PartitionVerification, Scratch
from cqrs_cli.proof.scope import Scope

#: Returns the records of the child's keys in a parent's log before the split, in batches.
ReadParentLog = Callable[[LogName], Iterable[list[Record]]]


def verify_parent(
    split: Split,
    scope: Scope,
    scratch: Scratch,
    inherited: ParentResults,
    read_log: ReadParentLog,
    *,
    is_continued: bool = False,
) -> ParentResults:
    """Verify a parent, starting from the results `inherited` of its own parents; return the results of all parents.

    Versions and command ids are written to the store of `scratch`. `is_continued`: the child continues from its own
    checkpoint, which has all inherited results except the parents' outcomes. So only outcomes are read.
    """
    verification = PartitionVerification(scope, scratch, inherited=inherited)
    for records in read_log("outcomes"):
        verification.outcomes.read(records)
    for records in () if is_continued else read_log("events"):
        verification.events.read(records)
    decided_range = verification.find_decided_range(
        split.commands, split.commands, scope.starts.get("commands", 0)
    )
    results = inherited.with_parent(
        split.partition, scratch.outcomes, decided_range.first_outcome, split.clock
    )
    if is_continued:
        return results
    ends: dict[LogName, int] = {"events": split.events, "outcomes": split.outcomes, "dead-letters": 0}
    verification.check_commands(chain.from_iterable(read_log("commands")), decided_range, ends)
    assert verification.new_checkpoint is not None
    return results.with_open_deferrals(split.partition, verification.new_checkpoint)
