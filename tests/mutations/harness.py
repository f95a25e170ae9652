"""Breaks a copy of the code, and checks whether a test fails."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.conftest import BOOTSTRAP_SERVER
from tests.mutations.table import Mutation
from tests.support import ROOT

#: The parts of the repository that tests need.
_PARTS = ("cqrs_cli", "aggregates", "processes", "tests", "pyproject.toml")


class PytestResult(NamedTuple):
    """The result of pytest in a copy."""

    status: int
    output: str

    @property
    def passed(self) -> bool:
        return self.status == 0

    @property
    def failed(self) -> bool:
        """True if tests failed; false if they could not be found, imported or set up."""
        last_line = self.output.rstrip().rpartition("\n")[2]
        return self.status == 1 and bool(re.search(r"\b\d+ failed\b", last_line)) and "error" not in last_line


def copy_repository(folder: Path) -> Path:
    """Copy the repository to the folder, and return the folder. The caller may break the code there."""
    for part in _PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, folder)
    return folder


def mutated_text(mutation: Mutation) -> str:
    """Return the broken file.

    Fails if the code to break has changed, so that no mutation becomes obsolete unnoticed.
    """
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    for old, new in mutation.edits:
        assert text.count(old) == 1, f"{mutation.file} has {text.count(old)} of {old!r}: correct the mutation"
        text = text.replace(old, new)
    compile(text, mutation.file, "exec")
    return text


def run_tests(root: Path, tests: list[str], bootstrap_server: str | None) -> PytestResult:
    """Run these tests in a copy, against the existing broker."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTEST_ADDOPTS", "PYTHONPATH")}
    if bootstrap_server is not None:
        env[BOOTSTRAP_SERVER] = bootstrap_server
    options = ["-q", "-x", "-m", "", "-p", "no:cacheprovider", "--hypothesis-profile", "unshrunk"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    process = subprocess.run(
        command, cwd=root, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return PytestResult(process.returncode, process.stdout)
