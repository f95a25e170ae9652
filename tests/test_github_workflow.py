"""The workflow for pull requests, which users copy."""

import shlex
from typing import Any

import pytest
import yaml

from cqrs_cli.cli.context import Call
from cqrs_cli.cli.main import parse
from tests.support import ROOT

WORKFLOW: Any = yaml.safe_load((ROOT / "deploy/github/whatif.yml").read_text(encoding="utf-8"))
STEPS = WORKFLOW["jobs"]["whatif"]["steps"]
LINES = [
    line
    for step in STEPS
    for line in step.get("run", "").replace("\\\n", " ").splitlines()
    if line.startswith("cqrs ")
]


@pytest.mark.parametrize("line", LINES)
def test_its_calls_are_valid(line: str) -> None:
    assert isinstance(parse(shlex.split(line)[1:]), Call)


def test_only_one_step_gets_the_secret() -> None:
    assert "secrets." not in str(WORKFLOW.get("env"))
    assert len([step for step in STEPS if "secrets." in str(step)]) == 1
    assert WORKFLOW["permissions"] == {"contents": "read"}
