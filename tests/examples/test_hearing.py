"""Code that subscribes to personal fields of customers must also subscribe to their erasure, or is not loaded."""

import shutil
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.projections.load import load_projection
from tests.support import ROOT

PROJECT = ROOT / "examples" / "customers"

PROCESS = """
from collections.abc import Iterator
import cqrs_cli as cqrs
from customers.customer import Left, Moved, Registered

def react(event: HEARD, at: cqrs.Recorded[HEARD]) -> Iterator[cqrs.Send]:
    if isinstance(event, Left):
        yield cqrs.Send("customer", at.aggregate_id, cqrs.Erase())

process = cqrs.Process(react)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the project."""
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__")))


def process(folder: Path, heard: str) -> None:
    (folder / "processes").mkdir()
    (folder / "processes" / "forgetting.py").write_text(PROCESS.replace("HEARD", heard))
    load_process("forgetting", folder, "customers")


def projection(folder: Path, heard: str, more: str = "") -> None:
    file = folder / "projections" / "mailing_list.py"
    text = file.read_text().replace("| Left | cqrs.Erased\n", f"| {heard}\n")
    file.write_text(text.replace("(project, metadata)", f"(project, metadata{more})"))
    load_projection("mailing_list", folder, "customers")


@pytest.mark.parametrize("heard", ["Left", "Registered | cqrs.Erased", "Left | cqrs.Erased"])
def test_processes_hear_erasing(folder: Path, heard: str) -> None:
    process(folder, heard)


def test_deaf_processes_are_refused(folder: Path) -> None:
    problem = r"processes/forgetting\.py:6: personal fields are in Moved, Registered: subscribe to cqrs\.Erased, too"
    with pytest.raises(ConfigurationError, match=problem):
        process(folder, "Registered | Moved | Left")


def test_deaf_projections_are_refused(folder: Path) -> None:
    problem = r"projections/mailing_list\.py:\d+: personal fields are in Moved, Registered: subscribe to cqrs\.Erased"
    with pytest.raises(ConfigurationError, match=problem):
        projection(folder, "Left")


def test_all_events_are_no_erasing(folder: Path) -> None:
    """Code that accepts any event does not handle erasures."""
    with pytest.raises(ConfigurationError, match=r"subscribe to cqrs\.Erased, too"):
        projection(folder, "cqrs.Event")


def test_reasons_to_keep_are_given(folder: Path) -> None:
    projection(folder, "Left", ", keeps_personal='the law asks for ten years'")
