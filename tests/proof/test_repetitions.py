"""Each rule for ids, on its own: outcomes that violate it, and correct outcomes."""

from typing import Any

import pytest

from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.duplicates import Duplicates
from cqrs_cli.proof.findings import DecidedRange, Findings, Losses
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import OutcomeTrace
from cqrs_cli.state.memory import MemoryStore
from tests.proof.history import WINDOW
from tests.proof.traces import Outcomes, outcome

#: The decision on id `x`, and its immediate repetitions.
FIRST = outcome(events=1)
PLACE = (0, "accepted", 1, 1)
AGAIN = outcome("duplicate", original=PLACE)
REUSED = outcome("rejected", "ID_REUSED", original=PLACE, fingerprint=6)


def judged(
    *outcomes: OutcomeTrace,
    window: int = WINDOW,
    longest: int | None = None,
    unknown: bool = False,
    **decided: Any,
) -> list[str]:
    """Return the findings for the outcomes of the commands from 0 on. With `unknown`, the index has no outcomes."""
    findings, index = Findings(), Outcomes() if unknown else Outcomes(enumerate(outcomes))
    seen = DecidedRange(99, 99, **decided)
    scope = Scope("way", "", 0, {}, window, longest_window=longest)
    with DedupIndex(MemoryStore(window)) as dedup:
        rules = Duplicates(scope, seen, Losses(seen, None, findings), index, dedup, findings)
        for offset, one in enumerate(outcomes):
            dedup.advance_clock(one.timestamp)
            rules.check_decision(offset, one)
    assert {one[:2] for one in findings.listed} <= {("outcomes", 10)}
    return [one.problem for one in findings.listed]


def late(one: OutcomeTrace, timestamp: int, **members: Any) -> OutcomeTrace:
    return outcome(
        **{name: getattr(one, name) for name in one.__struct_fields__} | {"timestamp": timestamp} | members
    )


DEFERRED = outcome("deferred", "LATER")
WAITING = outcome("duplicate", original=(1, "deferred", 1, 0))


@pytest.mark.parametrize(
    "outcomes",
    [
        (FIRST, AGAIN, REUSED, AGAIN),
        (FIRST, late(AGAIN, WINDOW)),
        (FIRST, late(FIRST, WINDOW + 1), late(AGAIN, WINDOW + 1, original=(1, "accepted", 1, 1))),
        (outcome("failed", "HANDLER_ERROR"), FIRST),
        (FIRST, outcome(subject="b"), outcome(cause="y")),
        (FIRST, outcome("failed", "KEY_MISMATCH"), outcome("failed", "INVALID_ENVELOPE", fingerprint=None)),
        (FIRST, outcome("rejected", "ID_REUSED"), outcome("duplicate")),
        (FIRST, late(DEFERRED, WINDOW + 1), late(WAITING, WINDOW + 1)),
        (FIRST, late(DEFERRED, WINDOW + 1), late(WAITING, 9 * WINDOW)),
    ],
)
def test_what_owners_decide_is_no_fault(outcomes: tuple[OutcomeTrace, ...]) -> None:
    assert judged(*outcomes) == []


OTHERS = "points to command 0, whose outcome is another's"
UNLIKE = "points to command 0, whose status, version or number of events is another"
OLD = "points to command 0 1001 ms before, though an id is remembered for 1000 ms"


@pytest.mark.parametrize(
    ("outcomes", "what"),
    [
        ((FIRST, FIRST), "decides id 'x' of 'a' again, as command 0 0 ms before"),
        ((FIRST, late(FIRST, WINDOW)), "decides id 'x' of 'a' again, as command 0 1000 ms before"),
        (
            (FIRST, outcome("failed", "HANDLER_ERROR")),
            "decides id 'x' of 'a' again, as command 0 0 ms before",
        ),
        ((FIRST, outcome("duplicate", original=(0, "unchanged", 1, 1))), UNLIKE),
        ((FIRST, outcome("duplicate", original=(0, "accepted", 2, 1))), UNLIKE),
        ((FIRST, outcome("duplicate", original=(0, "accepted", 1, 2))), UNLIKE),
        ((FIRST, outcome("duplicate", original=PLACE, subject="b")), OTHERS),
        ((FIRST, outcome("duplicate", original=PLACE, cause="y")), OTHERS),
        ((FIRST, outcome("duplicate", original=PLACE, fingerprint=6)), "is duplicate, which contradicts the"),
        ((FIRST, outcome("rejected", "ID_REUSED", original=PLACE)), "is ID_REUSED, which contradicts the"),
        ((FIRST, late(AGAIN, WINDOW + 1)), OLD),
        (
            (FIRST, late(FIRST, WINDOW + 1), late(AGAIN, WINDOW + 1)),
            "points to command 0, though command 1 was",
        ),
        (
            (FIRST, AGAIN, outcome("duplicate", original=(1, "duplicate", 1, 0))),
            "points to command 1, whose outcome is another's",
        ),
    ],
)
def test_faulty_repetition_is_named(outcomes: tuple[OutcomeTrace, ...], what: str) -> None:
    (found,) = judged(*outcomes)
    assert found.startswith(what)
    assert judged(*outcomes, topic_recreated=True) == ([] if outcomes[-1].original else [found])


@pytest.mark.parametrize("place", [1, 2, 9])
def test_first_decision_comes_before(place: int) -> None:
    again = outcome("duplicate", original=(place, "accepted", 1, 1))
    missing = f"points to command {place}, which has no outcome before it"
    assert judged(FIRST, again, late(FIRST, WINDOW + 1)) == [missing]


def test_first_decision_may_be_deleted() -> None:
    missing = "points to command 0, which has no outcome before it"
    assert judged(FIRST, AGAIN, unknown=True) == [missing]
    assert judged(FIRST, AGAIN, unknown=True, first_outcome=1) == []


def test_longest_window_counts_for_repetitions() -> None:
    assert judged(FIRST, late(AGAIN, WINDOW + 1), longest=WINDOW + 1) == []
    assert judged(FIRST, late(AGAIN, WINDOW + 1), longest=1) == [OLD]
    assert len(judged(FIRST, late(FIRST, WINDOW), longest=1)) == 1
    assert judged(FIRST, late(FIRST, WINDOW + 1), longest=9 * WINDOW) == []


def test_window_of_nothing_remembers_nothing() -> None:
    old = "points to command 0 1 ms before, though an id is remembered for 0 ms"
    assert judged(FIRST, AGAIN, window=0) == []
    assert judged(FIRST, late(AGAIN, 1), window=0) == [old]
