"""Every figure in docs/figures.md has a benchmark, which `make bench` runs."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.page import Page

COMMANDS = re.findall(r"`python (-m benchmarks[^`]*)`", Page("docs/figures.md").text)


def test_every_figure_has_a_benchmark() -> None:
    names = [re.match(r"-m benchmarks\.(\w+)", command) for command in COMMANDS]
    assert names
    assert [name for name in names if not name or not (ROOT / f"benchmarks/{name[1]}.py").is_file()] == []


@pytest.mark.program
def test_make_bench_runs_every_figure(tmp_path: Path) -> None:
    (tmp_path / "python").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "python").chmod(0o755)
    make = ["make", "--old-file=java", "--silent", "bench", f"BIN={tmp_path}", "READY="]
    output = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == COMMANDS
    assert "-m benchmarks.backlog --remembered 3000000 --ids random" in COMMANDS
