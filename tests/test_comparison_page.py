"""docs/comparison.md names the sources of its claims."""

import re

import pytest

from tests.support.page import Page

PAGE = Page("docs/comparison.md")
TEXT, _, SOURCES = PAGE.text.partition("## Sources")


def cells(row: str) -> list[str]:
    """Return the cells of the other products in a row of the table."""
    (line,) = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", TEXT, re.MULTILINE)
    return [cell.strip() for cell in line.split("|")[1:]]


@pytest.mark.parametrize(
    "row", ["partitions can be added while it runs", "erasing a person from the history"]
)
def test_claims_about_others_have_sources(row: str) -> None:
    row_cells = cells(row)
    assert len(row_cells) == 7
    assert [cell for cell in row_cells if not re.search(r"\[\d\]$|^not documented$", cell)] == []


def test_each_source_is_used() -> None:
    numbers = re.findall(r"^(\d)\. ", SOURCES, re.MULTILINE)
    assert set(re.findall(r"\[(\d)\]", TEXT)) == set(numbers) == {str(number) for number in range(1, 8)}
    assert re.search(r"claims date from \d+ \w+ \d{4}", TEXT)
