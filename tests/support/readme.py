"""The README as data: its blocks of code, in order."""

import re

from tests.support import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The contents of the fenced blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[str]:
    """The commands that a block of console tells to type."""
    assert all(line.startswith("$ ") for line in block.splitlines()), block
    return [line.removeprefix("$ ") for line in block.splitlines()]


def rows(header: str) -> list[str]:
    """The first cell of each row of the table whose first header is this."""
    table = TEXT[TEXT.index(f"\n| {header} |") :].split("\n\n")[0].strip().splitlines()
    return [line.split("|")[1].strip() for line in table[2:]]
