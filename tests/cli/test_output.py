"""The printer writes text unchanged, because Rich does not read it as markup."""

import io
from contextlib import redirect_stderr

import pytest
from rich.table import Table
from rich.text import Text

from cqrs_cli.cli.output import Printer
from tests.support import ROOT

#: Text that Rich would take for styles and an emoji.
TEXT = "pip install 'cqrs-cli[projections]' [/red] :bug:"


def table() -> Table:
    text_table = Table(TEXT, title=TEXT, caption=TEXT)
    text_table.add_row(TEXT)
    return text_table


@pytest.mark.parametrize(("count", "content"), [(1, TEXT), (4, table())], ids=["text", "table"])
def test_brackets_are_printed_as_they_are(
    count: int, content: object, capsys: pytest.CaptureFixture[str]
) -> None:
    Printer().stdout.print(content)
    assert capsys.readouterr().out.count(TEXT) == count


def test_errors_console_keeps_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    Printer().stderr.print(TEXT, soft_wrap=True)
    assert TEXT in capsys.readouterr().err


def test_spinner_keeps_brackets() -> None:
    """On a terminal, Rich reads a spinner's string as markup even if markup is off for its console."""
    screen = Screen()
    with redirect_stderr(screen), Printer().show_spinner(TEXT) as update:
        update(f"then {TEXT}")
    assert f"then {TEXT}" in Text.from_ansi(screen.getvalue()).plain


class Screen(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_no_other_console_is_made() -> None:
    """Only the printer creates consoles, and it creates two. Any other console would read markup."""
    paths = [str(path) for path in (ROOT / "cqrs_cli").rglob("*.py") if "Console(" in path.read_text()]
    assert paths == [str(ROOT / "cqrs_cli/cli/output.py")]


def test_tables_end_without_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    text_table = Table("name", "result", box=None)
    text_table.add_row("orders", "a long result")
    Printer().print_result({}, text_table)
    assert not any(line.endswith(" ") for line in capsys.readouterr().out.splitlines())
