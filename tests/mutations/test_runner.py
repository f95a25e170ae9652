"""Each mutant gets an exit code, also a mutant that does not end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutations import survivors
from tests.support import ROOT

SETTINGS = """
[tool.mutmut]
pytest_add_cli_args_test_selection = ["test_double.py"]
pytest_add_cli_args = ["-p", "no:cacheprovider"]
"""
#: Functions in the form that mutmut creates: each call selects the mutant.
DOUBLE = """
import os, time

def double(number):
    name = os.environ.get("MUTANT_UNDER_TEST", "").rpartition(".")[2]
    return globals()[name or "x_double__mutmut_orig"](number)

def x_double__mutmut_orig(number):
    return number * 2

def x_double__mutmut_1(number):
    return number * 3

def x_double__mutmut_2(number):
    return number + number

def x_double__mutmut_3(number):
    time.sleep(99)

def x_double__mutmut_4(number):
    while True: pass

def x_unreached__mutmut_orig():
    print("as it was")

def x_unreached__mutmut_1():
    print(None)

def x_unreached__mutmut_2():
    print("AS IT WAS")
"""
TESTS = """
from pathlib import Path
from double import double

def test_three():
    assert double(3) == 6

def test_unchanged():
    Path("ran").touch()
    assert double(0) == 0
"""
#: Runs the mutants without the seconds that each test gets in addition to its usual duration.
RUNNER = """
from tests.mutations import forks, runner
forks._CPU_SECONDS = forks._WAIT_SECONDS = 0
exit(runner.main({}))
"""
#: mutant → exit code. 0: no test failed, 1: a test failed, 36: too slow, 33: no test calls the function, 34: skipped.
CODES = {
    "cqrs_cli.double.x_double__mutmut_1": 1,
    "cqrs_cli.double.x_double__mutmut_2": 0,
    "cqrs_cli.double.x_double__mutmut_3": 36,
    "cqrs_cli.double.x_double__mutmut_4": 36,
    "cqrs_cli.double.x_unreached__mutmut_1": 33,
    "cqrs_cli.double.x_unreached__mutmut_2": 34,
}


def run(folder: Path, *patterns: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", RUNNER.format([*patterns])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return process.stderr


@pytest.mark.program
def test_each_mutant_has_its_result(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "double.py").write_text(DOUBLE)
    (tmp_path / "test_double.py").write_text(TESTS)
    tests = {"test_double.py::test_three": 0.05, "test_double.py::test_unchanged": 0.05}
    stats = {
        "duration_by_test": tests,
        "tests_by_mangled_function_name": {"cqrs_cli.double.x_double": [*tests]},
    }
    (tmp_path / "mutmut-stats.json").write_text(json.dumps(stats))
    document = {"exit_code_by_key": dict.fromkeys(CODES), "durations_by_key": {}}
    (tmp_path / "double.py.meta").write_text(json.dumps(document))

    output = run(tmp_path)
    assert [codes for _, codes in survivors.exit_codes_by_file(tmp_path)] == [CODES]
    assert "not noticed: cqrs_cli.double.x_double__mutmut_2\n" in output
    assert run(tmp_path) == "\n"
    assert run(tmp_path, "*double__mutmut_1") == "1 with 1\n"
