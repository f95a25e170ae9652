"""docs/aggregates.md is correct: its code runs in sequence in one project, and its table of types agrees with JSON."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cqrs_cli.cli import main
from cqrs_cli.cli.context import Call
from tests.support import ROOT
from tests.support.annotations import annotation_type

PAGE = (ROOT / "docs/aggregates.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python|console)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def type_rows() -> Iterator[tuple[str, str]]:
    """Yield the rows of the table of field types."""
    table = PAGE.partition("| annotation | in JSON |\n|---|---|\n")[2].partition("\n\n")[0]
    for row in table.splitlines():
        match = re.fullmatch(r"\| `(.+)` \| `(.+)` \|", row)
        assert match, row
        yield match[1].replace("\\|", "|"), match[2]


@pytest.mark.parametrize(("annotation", "json_text"), list(type_rows()))
def test_types_have_the_documented_json(annotation: str, json_text: str) -> None:
    type = annotation_type(annotation)
    assert msgspec.json.encode(msgspec.json.decode(json_text, type=type)).decode() == json_text


class Project:
    """A project in which the page's steps are executed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "aggregates").mkdir()
        (root / "aggregates/__init__.py").touch()
        (root / "cqrs.toml").touch()

    def python(self, block: str) -> None:
        """Write a block that begins with a file name to this file, and run any other block."""
        if match := re.match(r"# (aggregates/\w+\.py)\n", block):
            (self.root / match[1]).write_text(block.removeprefix(match[0]))
        else:
            self._run("-c", block)

    def console(self, block: str) -> None:
        """Parse all commands, and run the commands that need no broker."""
        for line in block.splitlines():
            assert line.startswith("$ cqrs ")
            arguments = shlex.split(line.removeprefix("$ cqrs "))
            assert isinstance(main.parse(arguments), Call)
            if arguments[0] == "send":
                self._run("-c", COMPOSE, *arguments[1:])
            elif arguments[0] == "check":
                self._run("-m", "cqrs_cli", *arguments)

    def _run(self, *arguments: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{self.root}{os.pathsep}{ROOT}"}
        process = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=environment, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stdout + process.stderr


#: Composes a command without sending it.
COMPOSE = """
import sys
from pathlib import Path
from cqrs_cli import registry
from cqrs_cli.client.compose import compose
aggregate, id, command, *fields = sys.argv[1:]
compose(registry.load(aggregate, "aggregates", Path.cwd()), id, command, fields)
"""


@pytest.mark.program
def test_page_runs_from_top_to_bottom(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for language, block in BLOCKS:
        (project.python if language == "python" else project.console)(block)
    assert sorted(path.name for path in (tmp_path / "schemas").iterdir()) == ["parcel.json", "wallet.json"]


def test_all_blocks_of_the_page_are_run() -> None:
    """All kinds of blocks are counted, so that a misspelt fence is noticed."""
    assert len(BLOCKS) == PAGE.count("\n```\n") == PAGE.count("\n```python\n") + PAGE.count("\n```console\n")
    assert [block[:25] for language, block in BLOCKS if block.startswith("# aggregates/")] == [
        '# aggregates/wallet.py\n""',
        '# aggregates/parcel.py\n""',
        '# aggregates/wallet.py\n""',
    ]
