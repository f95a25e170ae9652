"""docs/comparison.md names the sources of its claims."""

import re

import pytest

from tests.support.page import Page

PAGE = Page("docs/comparison.md")
TEXT, _, SOURCES = PAGE.text.partition("## Sources")


def cells(row: str) -> list[str]:
    """Return the cells of the other products in a row of both tables."""
    lines = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", TEXT, re.MULTILINE)
    return [cell.strip() for line in lines for cell in line.split("|")[1:]]


@pytest.mark.parametrize(
    ("row", "count"),
    [("partitions can be added while the system runs", 12), ("erasing a person from the history", 7)],
)
def test_claims_about_others_have_sources(row: str, count: int) -> None:
    row_cells = cells(row)
    assert len(row_cells) == count
    assert [cell for cell in row_cells if not re.search(r"\[\d+\]$|^not documented$", cell)] == []


def test_missing_features_have_sources() -> None:
    table = TEXT.partition("| feature | systems that have it | what cqrs has instead |")[2].partition("\n\n")[
        0
    ]
    systems = [line.split("|")[2] for line in table.splitlines()[2:]]
    assert len(systems) == 5
    assert all(re.search(r"\[\d+\]", cell) for cell in systems[:4])


def test_each_source_is_used() -> None:
    numbers = re.findall(r"^(\d+)\. ", SOURCES, re.MULTILINE)
    assert set(re.findall(r"\[(\d+)\]", TEXT)) == set(numbers) == {str(number) for number in range(1, 13)}
    assert re.search(r"claims date from \d+ \w+ \d{4}", TEXT)
