from collections import Counter
from itertools import chain
from typing import get_args

from cqrs_cli.cli.render.queries.whatif import MAX_TEXT, whatif_report, whatif_result
from cqrs_cli.cli.render.report import ReportFormat, SourceLine, report_lines
from cqrs_cli.jobs.engine.staging import Target
from cqrs_cli.jobs.whatif import WhatifSummary
from cqrs_cli.proof.whatif.difference import HistoryDifference, Label
from cqrs_cli.proof.whatif.rules import parse_rule
from tests.support.results import lines_of


def difference_lines(count: int, old_value: bytes = b"{}", target: Target | None = None) -> list[str]:
    """Return the lines about `count` differences, of which one difference is shown."""
    difference = HistoryDifference(
        "outcome", "accepted", "unchanged", 0, 7, "a", "x", "tally.Add", old_value, b"{}"
    )
    summary = WhatifSummary(
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


def test_exceeded_rules_are_errors() -> None:
    """Reports contain positions, but no data."""
    label: Label = ("outcome", "accepted", "rejected EXPIRED")
    difference = HistoryDifference(*label, 0, 7, "ann@example.com", "x", "tally.Add", b'{"secret":1}', b"{}")
    summary = WhatifSummary(9, 4, 0, [], Counter({label: 3}), {label: [difference]}, 1.0)
    rule_results = [parse_rule(text).result(summary.counts, 9, 4) for text in ("decision>30%", "state>0")]
    report = whatif_report(
        "tally", "drafts.tally", summary, rule_results, lambda kind: SourceLine(f"{kind}.py", 5)
    )
    assert [(finding.level, finding.text, finding.source.file) for finding in report.findings] == [
        ("error", "accepted → rejected EXPIRED: 3 of 9, such as 0@7", "outcome.py"),
        ("error", "rule decision>30% is exceeded: 3 of 9", "outcome.py"),
    ]
    text = "\n".join(chain(*(report_lines(report, format) for format in get_args(ReportFormat))))
    assert "secret" not in text and "ann@" not in text
    assert "rule state>0 is kept: 0 of 4" in lines_of(
        whatif_result("tally", "drafts.tally", summary, None, rule_results)
    )
