from collections import Counter

from cqrs_cli.cli.render.queries.whatif import MAX_TEXT, whatif_result
from cqrs_cli.jobs.engine.staging import Target
from cqrs_cli.jobs.whatif import DecidedAgain
from cqrs_cli.proof.whatif.difference import HistoryDifference
from tests.support.results import lines_of


def told(count: int, was: bytes = b"{}", target: Target | None = None) -> list[str]:
    """Return the text about `count` differences, of which one is shown."""
    difference = HistoryDifference(
        "outcome", "accepted", "unchanged", 0, 7, "a", "x", "tally.Add", was, b"{}"
    )
    summary = DecidedAgain(
        9, 1, 0, [], Counter({difference.label: count}), {difference.label: [difference]}, 1.0
    )
    return lines_of(whatif_result("tally", "drafts.tally", summary, target))


def test_differences_left_out_are_counted() -> None:
    assert not any("not shown" in line for line in told(1))
    assert "           1,999 more are not shown: --out DIR writes all" in told(2000)
    text = told(2000, target=Target("there", "json"))
    assert "           1,999 more are not shown: all are written" in text


def test_cut_values_say_how_much() -> None:
    whole, cut = b"x" * MAX_TEXT, b"x" * (MAX_TEXT + 1234)
    assert f"             was   {whole.decode()}" in told(1, was=whole)
    assert f"             was   {whole.decode()}… 1,234 more characters" in told(1, was=cut)
