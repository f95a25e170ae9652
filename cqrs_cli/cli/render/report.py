"""Reports of findings for pull requests: annotations of GitHub Actions, SARIF 2.1.0, and a summary in Markdown.

Pull requests may be public, so a report contains no data of messages.
"""

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from cqrs_cli.cli.output import Printer, json_line
from cqrs_cli.version import __version__

#: The levels of GitHub's annotations and of SARIF are equal, except that GitHub calls a note a notice.
Level = Literal["error", "warning", "note"]

#: The characters that are escaped in a property of a workflow command, and the characters that are escaped in its
#: message.
_PROPERTY_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"}
_MESSAGE_ESCAPES = {character: _PROPERTY_ESCAPES[character] for character in "%\r\n"}


#: Annotations of GitHub Actions, SARIF 2.1.0, or a summary in Markdown.
ReportFormat = Literal["github", "sarif", "markdown"]


class SourceLine(NamedTuple):
    """A line of the code, with the path relative to the repository: `SourceLine("drafts/order.py", 40)`."""

    file: str
    line: int = 1


class Finding(NamedTuple):
    """One finding. `rule` is a stable name for programs, such as `outcome-differs`."""

    level: Level
    rule: str
    text: str
    source: SourceLine


class Report(NamedTuple):
    """The findings of one call of a command; `summary` is the last line."""

    title: str
    findings: list[Finding]
    summary: str


def source_line(function: object, file: Path, root: Path) -> SourceLine:
    """Return the first line of a function, or of `file` if there is no function or its source is unknown.

    GitHub shows annotations only for paths relative to the repository, which may contain the project in a folder.
    """
    line = 1
    try:
        file = Path(inspect.getsourcefile(function) or file)  # type: ignore[arg-type]
        line = inspect.getsourcelines(function)[1]  # type: ignore[arg-type]
    except (TypeError, OSError):
        pass
    path, base = file.resolve(), Path(os.environ.get("GITHUB_WORKSPACE") or root).resolve()
    return SourceLine((path.relative_to(base) if path.is_relative_to(base) else path).as_posix(), line)


def print_report(printer: Printer, report: Report, format: ReportFormat) -> None:
    """Print a report on stdout; in GitHub Actions, also append it as Markdown to the file that the runner shows."""
    for line in report_lines(report, format):
        printer.write_line(line.encode(errors="backslashreplace"))
    if format == "github" and (summary_file := os.environ.get("GITHUB_STEP_SUMMARY")):
        with Path(summary_file).open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in report_lines(report, "markdown"))


def report_lines(report: Report, format: ReportFormat) -> Iterator[str]:
    """Yield the lines of a report; a SARIF document is one line."""
    if format == "github":
        yield from map(_annotation, report.findings)
        yield report.summary
    elif format == "markdown":
        yield from _markdown_lines(report)
    else:
        yield json_line(_sarif_document(report)).decode()


def _annotation(finding: Finding) -> str:
    """Return a workflow command: `::warning file=drafts/order.py,line=40,title=…::…`."""
    command = "notice" if finding.level == "note" else finding.level
    properties = {"file": finding.source.file, "line": finding.source.line, "title": finding.rule}
    property_text = ",".join(
        f"{name}={_escaped(str(value), _PROPERTY_ESCAPES)}" for name, value in properties.items()
    )
    return f"::{command} {property_text}::{_escaped(finding.text, _MESSAGE_ESCAPES)}"


def _escaped(text: str, escapes: dict[str, str]) -> str:
    return "".join(escapes.get(character, character) for character in text)


def _markdown_lines(report: Report) -> Iterator[str]:
    yield f"### {report.title}"
    yield ""
    if report.findings:
        yield "| level | finding | code |"
        yield "|---|---|---|"
    for finding in report.findings:
        source = f"{finding.source.file}:{finding.source.line}"
        yield f"| {finding.level} | {_markdown_escaped(finding.text)} | {_markdown_escaped(source)} |"
    yield ""
    yield _markdown_escaped(report.summary)


def _markdown_escaped(text: str) -> str:
    """Escape the markup in a text, and join its lines for one table cell: `__init__` and `a|b` are shown unchanged."""
    lines = (re.sub(r"([\\`*_{}\[\]<>#|!~@&])", r"\\\1", line) for line in text.splitlines())
    return "<br>".join(lines)


def _sarif_document(report: Report) -> dict[str, Any]:
    rules = sorted({finding.rule for finding in report.findings})
    driver = {"name": "cqrs", "version": __version__, "rules": [{"id": rule} for rule in rules]}
    results = [
        {
            "ruleId": finding.rule,
            "level": finding.level,
            "message": {"text": finding.text},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": quote(finding.source.file)},
                        "region": {"startLine": finding.source.line},
                    }
                }
            ],
        }
        for finding in report.findings
    ]
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
