"""docs/operations.md is correct: its unit file and its commands."""

import configparser
import re
import shlex

import pytest

from cqrs_cli import errors
from cqrs_cli.cli import main
from cqrs_cli.cli.context import Call
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.system.limits import BASE_DESCRIPTORS, DESCRIPTORS_PER_BROKER, OWNER_DESCRIPTORS
from tests.support import ROOT
from tests.support.page import Page

PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
COMMANDS = [line for block in Page("docs/operations.md").commands() for line in block]
CODES = dict(re.findall(r"^\| ([\d, ]+) \| [^|]+ \| (yes|no)\b", PAGE, re.MULTILINE))


def unit_file() -> configparser.ConfigParser:
    (text,) = re.findall(r"^```ini\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


def test_table_has_every_exit_code_of_run() -> None:
    other_codes = {
        error.exit_code for error in (errors.RefusedError, errors.NoOutcomeError, errors.RuleError)
    }
    all_codes = {
        error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.CqrsError)
    }
    documented = {int(code) for codes in CODES for code in codes.split(", ")}
    assert documented == {0, 128 + 1, 128 + 2, 128 + 15, *(all_codes - other_codes)}


def test_unit_restarts_like_the_table() -> None:
    service = unit_file()["Service"]
    assert service["Restart"] == "on-failure"
    clean_codes = {0, *map(int, service["SuccessExitStatus"].split())}
    no_restart_codes = clean_codes | set(map(int, service["RestartPreventExitStatus"].split()))
    for codes, restarts in CODES.items():
        for code in (int(code) for code in codes.split(", ") if code != "129"):  # SIGHUP: a terminal's
            assert (code in no_restart_codes) == (restarts == "no"), code


def test_unit_starts_a_valid_command() -> None:
    program, *arguments = shlex.split(unit_file()["Service"]["ExecStart"])
    assert program.endswith("/bin/cqrs")
    assert isinstance(main.parse(arguments), Call)


def test_unit_waits_for_the_last_checkpoint() -> None:
    """The driver waits for its tasks until both timeouts. Then Spark needs a few seconds to end."""
    timing = Timing()
    seconds = timing.close_timeout + timing.retire_deadline
    assert seconds + 10 <= float(unit_file()["Service"]["TimeoutStopSec"]) == 60
    assert f"the stop may take {seconds:.0f} seconds" in " ".join(PAGE.split())
    assert f"At a stop, the write may take {timing.retire_deadline:.0f} seconds" in PAGE
    assert "terminationGracePeriodSeconds: 60" in PAGE


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("cqrs ")])
def test_documented_commands_are_valid(line: str) -> None:
    assert isinstance(main.parse(shlex.split(line)[1:]), Call)


def test_open_files_equal_the_code() -> None:
    sizes = PAGE.partition("## Sizes")[2].partition("\n## ")[0]
    assert f"for each worker {BASE_DESCRIPTORS}; for each partition {OWNER_DESCRIPTORS}" in sizes
    assert f"plus {DESCRIPTORS_PER_BROKER} for each broker beyond the first" in sizes
