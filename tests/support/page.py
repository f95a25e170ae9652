"""A page of the documentation as data: its code blocks, its commands and its tables."""

import re
from dataclasses import dataclass
from functools import cached_property

from tests.support import ROOT

#: Texts that differ in each run: times, ids, partitions and offsets, rates.
VARYING_TEXT = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{8}-[0-9a-f-]{27}|\b\d+@\d+\b|in [\d.]+ s|\([\d.,]+ commands? a second\)"
)


@dataclass(frozen=True)
class Page:
    """The page at a path in the repository."""

    path: str

    @cached_property
    def text(self) -> str:
        """The whole page."""
        return (ROOT / self.path).read_text(encoding="utf-8")

    def blocks(self, language: str) -> list[str]:
        """Return the contents of the fenced blocks in a language."""
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)

    def commands(self) -> list[list[str]]:
        """Return the commands of each console block."""
        return [[line for line, _ in typed_commands(block)] for block in self.blocks("console")]

    def rows(self, header: str) -> list[str]:
        """Return the first cell of each row of the table whose first header is `header`."""
        table = self.text[self.text.index(f"\n| {header} |") :].split("\n\n")[0].strip().splitlines()
        return [line.split("|")[1].strip() for line in table[2:]]


def typed_commands(block: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with the lines that it prints."""
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert sum(1 + printed.count("\n") for _, printed in commands) == block.count("\n"), block
    return commands


def stable_words(printed: str) -> list[list[str]]:
    """Return the words of each line, without the texts that differ in each run."""
    return [VARYING_TEXT.sub("…", line).split() for line in printed.splitlines()]
