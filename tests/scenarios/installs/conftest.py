"""The wheels that every installation uses: this project's wheel, and PySpark's wheel, which is built once."""

import subprocess
import venv
from pathlib import Path

import pytest

from tests.scenarios.installs.machine import Machine, new_machine
from tests.support import ROOT


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both wheels. PyPI has no wheel of PySpark, so every user's installer builds the same wheel."""
    folder = tmp_path_factory.mktemp("wheels")
    venv.create(folder / "builder", with_pip=True)
    pip = [
        str(folder / "builder/bin/python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "wheel",
        "--no-deps",
        "--use-pep517",  # otherwise an older pip needs the package `wheel` too, which a new venv lacks
    ]
    for requirement in (str(ROOT), "pyspark"):
        options = ["--constraint", str(ROOT / "constraints.txt"), "--wheel-dir", str(folder)]
        process = subprocess.run([*pip, *options, requirement], capture_output=True, text=True)
        if process.returncode:
            pytest.fail(f"pip failed; is there a network? {process.stdout}{process.stderr}", pytrace=False)
    return folder


@pytest.fixture
def machine(wheels: Path, tmp_path: Path) -> Machine:
    """An empty machine for each test."""
    return new_machine(tmp_path, wheels)
