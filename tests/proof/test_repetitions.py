"""Each rule for ids, on its own: outcomes that violate it, and correct outcomes."""

from typing import Any

import pytest

from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.duplicates import Duplicates
from cqrs_cli.proof.findings import DecidedRange, Findings, Losses
from cqrs_cli.proof.index_entries import OutcomeEntry
from cqrs_cli.proof.scope import Scope
from cqrs_cli.state.memory import MemoryStore
from tests.proof.history import WINDOW
from tests.proof.index_entries import OutcomeIndex, outcome_entry

#: The decision on id `x`, and its immediate repetitions.
FIRST = outcome_entry(events=1)
ORIGINAL = (0, "accepted", 1, 1)
DUPLICATE = outcome_entry("duplicate", original=ORIGINAL)
REUSED = outcome_entry("rejected", "ID_REUSED", original=ORIGINAL, fingerprint=6)


def problems_of(
    *outcomes: OutcomeEntry,
    window: int = WINDOW,
    longest: int | None = None,
    with_empty_index: bool = False,
    **decided: Any,
) -> list[str]:
    """Return the problems found in `outcomes`, which are the outcomes of the commands 0, 1, 2 and so on."""
    findings, index = Findings(), OutcomeIndex() if with_empty_index else OutcomeIndex(enumerate(outcomes))
    decided_range = DecidedRange(99, 99, **decided)
    scope = Scope("way", "", 0, {}, window, longest_window=longest)
    with DedupIndex(MemoryStore(window)) as dedup:
        rules = Duplicates(
            scope, decided_range, Losses(decided_range, None, findings), index, dedup, findings
        )
        for offset, outcome in enumerate(outcomes):
            dedup.advance_clock(outcome.timestamp)
            rules.check_decision(offset, outcome)
    assert {finding[:2] for finding in findings.listed} <= {("outcomes", 10)}
    return [finding.problem for finding in findings.listed]


def at_time(entry: OutcomeEntry, timestamp: int, **members: Any) -> OutcomeEntry:
    return outcome_entry(
        **{name: getattr(entry, name) for name in entry.__struct_fields__}
        | {"timestamp": timestamp}
        | members
    )


DEFERRED = outcome_entry("deferred", "LATER")
DUPLICATE_OF_DEFERRED = outcome_entry("duplicate", original=(1, "deferred", 1, 0))


@pytest.mark.parametrize(
    "outcomes",
    [
        (FIRST, DUPLICATE, REUSED, DUPLICATE),
        (FIRST, at_time(DUPLICATE, WINDOW)),
        (FIRST, at_time(FIRST, WINDOW + 1), at_time(DUPLICATE, WINDOW + 1, original=(1, "accepted", 1, 1))),
        (outcome_entry("failed", "HANDLER_ERROR"), FIRST),
        (FIRST, outcome_entry(subject="b"), outcome_entry(cause="y")),
        (
            FIRST,
            outcome_entry("failed", "KEY_MISMATCH"),
            outcome_entry("failed", "INVALID_ENVELOPE", fingerprint=None),
        ),
        (FIRST, outcome_entry("rejected", "ID_REUSED"), outcome_entry("duplicate")),
        (FIRST, at_time(DEFERRED, WINDOW + 1), at_time(DUPLICATE_OF_DEFERRED, WINDOW + 1)),
        (FIRST, at_time(DEFERRED, WINDOW + 1), at_time(DUPLICATE_OF_DEFERRED, 9 * WINDOW)),
    ],
)
def test_correct_repetitions_have_no_problem(outcomes: tuple[OutcomeEntry, ...]) -> None:
    assert problems_of(*outcomes) == []


OTHER_COMMAND = "points to command 0, whose outcome is of another id"
OTHER_DECISION = "points to command 0, whose status, version or number of events differs"
TOO_OLD = "points to command 0 1001 ms before, though an id is remembered for 1000 ms"


@pytest.mark.parametrize(
    ("outcomes", "problem"),
    [
        ((FIRST, FIRST), "decides id 'x' of 'a' again, as command 0 0 ms before"),
        ((FIRST, at_time(FIRST, WINDOW)), "decides id 'x' of 'a' again, as command 0 1000 ms before"),
        (
            (FIRST, outcome_entry("failed", "HANDLER_ERROR")),
            "decides id 'x' of 'a' again, as command 0 0 ms before",
        ),
        ((FIRST, outcome_entry("duplicate", original=(0, "unchanged", 1, 1))), OTHER_DECISION),
        ((FIRST, outcome_entry("duplicate", original=(0, "accepted", 2, 1))), OTHER_DECISION),
        ((FIRST, outcome_entry("duplicate", original=(0, "accepted", 1, 2))), OTHER_DECISION),
        ((FIRST, outcome_entry("duplicate", original=ORIGINAL, subject="b")), OTHER_COMMAND),
        ((FIRST, outcome_entry("duplicate", original=ORIGINAL, cause="y")), OTHER_COMMAND),
        (
            (FIRST, outcome_entry("duplicate", original=ORIGINAL, fingerprint=6)),
            "is duplicate, which contradicts the",
        ),
        (
            (FIRST, outcome_entry("rejected", "ID_REUSED", original=ORIGINAL)),
            "is ID_REUSED, which contradicts the",
        ),
        ((FIRST, at_time(DUPLICATE, WINDOW + 1)), TOO_OLD),
        (
            (FIRST, at_time(FIRST, WINDOW + 1), at_time(DUPLICATE, WINDOW + 1)),
            "points to command 0, though command 1 was",
        ),
        (
            (FIRST, DUPLICATE, outcome_entry("duplicate", original=(1, "duplicate", 1, 0))),
            "points to command 1, whose outcome is of another id",
        ),
    ],
)
def test_faulty_repetition_is_named(outcomes: tuple[OutcomeEntry, ...], problem: str) -> None:
    (violation,) = problems_of(*outcomes)
    assert violation.startswith(problem)
    assert problems_of(*outcomes, topic_recreated=True) == ([] if outcomes[-1].original else [violation])


@pytest.mark.parametrize("offset", [1, 2, 9])
def test_first_decision_comes_before(offset: int) -> None:
    duplicate = outcome_entry("duplicate", original=(offset, "accepted", 1, 1))
    missing = f"points to command {offset}, which has no outcome before it"
    assert problems_of(FIRST, duplicate, at_time(FIRST, WINDOW + 1)) == [missing]


def test_first_decision_may_be_deleted() -> None:
    missing = "points to command 0, which has no outcome before it"
    assert problems_of(FIRST, DUPLICATE, with_empty_index=True) == [missing]
    assert problems_of(FIRST, DUPLICATE, with_empty_index=True, first_outcome=1) == []


def test_longest_window_counts_for_repetitions() -> None:
    assert problems_of(FIRST, at_time(DUPLICATE, WINDOW + 1), longest=WINDOW + 1) == []
    assert problems_of(FIRST, at_time(DUPLICATE, WINDOW + 1), longest=1) == [TOO_OLD]
    assert len(problems_of(FIRST, at_time(FIRST, WINDOW), longest=1)) == 1
    assert problems_of(FIRST, at_time(FIRST, WINDOW + 1), longest=9 * WINDOW) == []


def test_window_of_nothing_remembers_nothing() -> None:
    old = "points to command 0 1 ms before, though an id is remembered for 0 ms"
    assert problems_of(FIRST, DUPLICATE, window=0) == []
    assert problems_of(FIRST, at_time(DUPLICATE, 1), window=0) == [old]
