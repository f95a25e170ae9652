"""The source distribution: it is complete, builds, and passes its own pure tests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

#: One folder or file of each kind: code, processes, documents.
TEST_PATHS = ["tests/core", "tests/system", "tests/aggregates", "tests/test_docs.py", "tests/test_readme.py"]


def test_sdist_passes_its_pure_tests(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="needs the extra release")
    build_command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "sdist",
        "--directory",
        str(tmp_path),
    ]
    subprocess.run(build_command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path], check=True)
    folder = tmp_path / archive.name.removesuffix(".tar.gz")
    test_command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "not kafka and not spark and not docker",
        *TEST_PATHS,
    ]
    process = subprocess.run(test_command, cwd=folder, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout
