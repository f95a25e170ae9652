"""The wheels that every installation uses: this project's wheel, and PySpark's wheel."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.scenarios.installs.machine import Machine, new_machine
from tests.support import ROOT
from tests.support.wheels import pack_installed


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both wheels. PyPI has no wheel of PySpark: to build it again would take half a minute."""
    folder = tmp_path_factory.mktemp("wheels")
    build_command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
    ]
    subprocess.run(build_command, cwd=ROOT, check=True, capture_output=True)
    pack_installed(folder, "pyspark")
    return folder


@pytest.fixture
def machine(wheels: Path, tmp_path: Path) -> Machine:
    """An empty machine for each test."""
    return new_machine(tmp_path, wheels)
