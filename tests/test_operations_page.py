"""docs/operations.md is correct: its unit file, its commands, and its backup, which is restored."""

import configparser
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cqrs_cli import errors
from cqrs_cli.cli import main
from cqrs_cli.cli.context import Call
from cqrs_cli.kafka.embedded import broker as embedded
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.system.limits import BASE_DESCRIPTORS, DESCRIPTORS, DESCRIPTORS_A_BROKER
from tests.support import ROOT
from tests.support.page import Page

PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
FIGURES = (ROOT / "docs/figures.md").read_text(encoding="utf-8")
DEPLOY, GROW, BACKUP, WATCH = Page("docs/operations.md").commands()
CODES = dict(re.findall(r"^\| ([\d, ]+) \| [^|]+ \| (yes|no)\b", PAGE, re.MULTILINE))


def unit() -> configparser.ConfigParser:
    (text,) = re.findall(r"^```ini\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    parsed = configparser.ConfigParser(strict=False, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(text)
    return parsed


def test_table_has_every_exit_code_of_run() -> None:
    of_send = {errors.RefusedError.exit_code, errors.NoOutcomeError.exit_code}
    raised = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.CqrsError)
    }
    told = {int(code) for codes in CODES for code in codes.split(", ")}
    assert told == {0, 128 + 1, 128 + 2, 128 + 15, *(raised - of_send)}


def test_unit_restarts_as_the_table_says() -> None:
    service = unit()["Service"]
    assert service["Restart"] == "on-failure"
    clean = {0, *map(int, service["SuccessExitStatus"].split())}
    never = clean | set(map(int, service["RestartPreventExitStatus"].split()))
    for codes, again in CODES.items():
        for code in (int(code) for code in codes.split(", ") if code != "129"):  # SIGHUP: a terminal's
            assert (code in never) == (again == "no"), code


def test_unit_starts_what_exists() -> None:
    program, *arguments = shlex.split(unit()["Service"]["ExecStart"])
    assert program.endswith("/bin/cqrs")
    assert isinstance(main.parse(arguments), Call)


def test_unit_waits_for_the_last_checkpoint() -> None:
    """The driver waits for its tasks so long. Then Spark ends, which takes a few seconds."""
    timing = Timing()
    needed = timing.close_timeout + timing.retire_deadline
    assert needed + 10 <= float(unit()["Service"]["TimeoutStopSec"]) == 60
    assert f"it may take {needed:.0f} seconds" in PAGE
    assert f"At a stop it has {timing.retire_deadline:.0f} seconds" in PAGE
    assert "terminationGracePeriodSeconds: 60" in PAGE


@pytest.mark.parametrize(
    "line", [line for line in (*DEPLOY, *GROW, *BACKUP, *WATCH) if line.startswith("cqrs ")]
)
def test_its_commands_are_understood(line: str) -> None:
    assert isinstance(main.parse(shlex.split(line)[1:]), Call)


def test_figures_are_those_of_their_page() -> None:
    sizes = PAGE.partition("## Sizes")[2].partition("\n## ")[0]
    for figure in ("91,000", "22 µs", "328,000", "468,000", "470 MB"):
        assert figure in sizes and figure in FIGURES
    assert f"{BASE_DESCRIPTORS}, {DESCRIPTORS} more for each partition" in sizes
    assert f"{DESCRIPTORS_A_BROKER} more for each partition and further broker" in sizes


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_backup_is_restored_as_told(tmp_path: Path) -> None:
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").symlink_to(ROOT / "aggregates")
    before = ["cqrs init counter", "cqrs send counter c-1 Increment", "cqrs run --once counter"]
    said = ""
    try:
        for line in [*before, *BACKUP, "cqrs show counter c-1 -o json"]:
            program, *arguments = shlex.split(line)
            call = [sys.executable, "-m", "cqrs_cli"] if program == "cqrs" else [program]
            done = subprocess.run(
                [*call, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=180
            )
            assert done.returncode == 0, (line, done.stdout, done.stderr)
            said = done.stdout
    finally:
        embedded.stop_broker(tmp_path)
    assert '"version":2' in said  # events between backup and loss are gone
