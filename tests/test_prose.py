"""The prose of each area has few idioms that a reader must read twice; the numbers may only be lowered."""

import pytest

from tests.support import ROOT
from tests.support.prose import IDIOMS, idiom_rate, tracked_files

#: Idioms in 10,000 words that an area may have at most.
LIMITS = {
    "code": (["cqrs_cli/*.py", "aggregates/*.py", "projections/*.py", "processes/*.py"], 10),
    "docs": (["*.md"], 10),
    "tests": (["tests/*.py"], 10),
    "benchmarks and examples": (["benchmarks/*.py", "examples/*.py", "docs/*.py"], 20),
}

#: A limit must be lowered if it exceeds the measured rate by more than this number.
SLACK = 10


@pytest.mark.parametrize("area", LIMITS)
def test_prose_is_plain(area: str) -> None:
    patterns, limit = LIMITS[area]
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    measured = idiom_rate(tracked_files(*patterns))
    assert measured <= limit, f"{measured:.0f} idioms in 10,000 words of {area}"
    assert measured > limit - SLACK, f"lower the limit of {area}"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The owner that was fenced stops.", 0),
        ("Those of a run that nobody fenced say so.", 3),
        ("What is committed stands in the log.", 2),
        ("The claim stands by itself.", 0),
    ],
)
def test_idioms_are_counted(text: str, count: int) -> None:
    assert len(IDIOMS.findall(text)) == count
