"""docs/commands.md has every command, and its examples are understood."""

import shlex

import pytest

from cqrs_cli.cli import main
from cqrs_cli.cli.app import PANELS
from cqrs_cli.cli.context import Call
from tests.support.page import Page

PAGE = Page("docs/commands.md")
(EXAMPLES,) = PAGE.commands()


def test_table_lists_every_command() -> None:
    assert [row.strip("`").split()[1] for row in PAGE.rows("command")] == list(PANELS)


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_command_is_understood(line: str) -> None:
    assert isinstance(main.parse(shlex.split(line)[1:]), Call)
