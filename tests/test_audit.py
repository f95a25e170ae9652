"""`make nightly`: an audit without an answer does not count as a clean audit."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support import ROOT

CLEAN = {"name": "a", "version": "1.0", "vulns": []}
VULNERABLE = {"name": "b", "version": "2.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}]}
UNKNOWN = {"name": "c", "skip_reason": "not found on PyPI"}


def audit(*packages: Any) -> tuple[int, str]:
    """Return the exit code and the output of an audit for which pip-audit finds these packages."""
    report = json.dumps({"dependencies": packages}) if packages else "no JSON"
    program = [sys.executable, ".ci/audit", sys.executable, "-c", f"print({report!r})"]
    process = subprocess.run(program, cwd=ROOT, capture_output=True, text=True)
    return process.returncode, process.stdout + process.stderr


@pytest.mark.program
@pytest.mark.parametrize(
    ("packages", "status", "message"),
    [
        ([CLEAN], 0, "1 packages audited, 0 known vulnerabilities\n"),
        ([CLEAN, VULNERABLE], 1, "b 2.0: PYSEC-1, fixed in 2.1\n"),
        ([CLEAN, UNKNOWN], 1, "error: PyPI has no answer for c\n"),
        ([UNKNOWN], 4, "error: no package was audited, because PyPI does not answer\n"),
        ([], 4, "error: no package was audited"),
    ],
)
def test_audit_reports_each_package(packages: list[Any], status: int, message: str) -> None:
    exit_code, output = audit(*packages)
    assert exit_code == status and message in output
