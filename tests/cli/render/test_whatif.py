from collections import Counter

from cqrs_cli.cli.render.queries.whatif import MAX_TEXT, whatif_result
from cqrs_cli.jobs.engine.staging import Target
from cqrs_cli.jobs.whatif import DecidedAgain
from cqrs_cli.proof.whatif.difference import HistoryDifference
from tests.support.results import lines_of


def difference_lines(count: int, old_value: bytes = b"{}", target: Target | None = None) -> list[str]:
    """Return the lines about `count` differences, of which one difference is shown."""
    difference = HistoryDifference(
        "outcome", "accepted", "unchanged", 0, 7, "a", "x", "tally.Add", old_value, b"{}"
    )
    summary = DecidedAgain(
        9, 1, 0, [], Counter({difference.label: count}), {difference.label: [difference]}, 1.0
    )
    return lines_of(whatif_result("tally", "drafts.tally", summary, target))


def test_omitted_differences_are_counted() -> None:
    assert not any("not shown" in line for line in difference_lines(1))
    assert "           1,999 more are not shown: --out DIR writes all" in difference_lines(2000)
    text = difference_lines(2000, target=Target("there", "json"))
    assert "           1,999 more are not shown: all are written" in text


def test_cut_values_have_the_omitted_length() -> None:
    whole_value, long_value = b"x" * MAX_TEXT, b"x" * (MAX_TEXT + 1234)
    assert f"             was   {whole_value.decode()}" in difference_lines(1, old_value=whole_value)
    assert f"             was   {whole_value.decode()}… 1,234 more characters" in difference_lines(
        1, old_value=long_value
    )
