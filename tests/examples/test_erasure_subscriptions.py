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

def react(event: SUBSCRIBED, at: cqrs.Recorded[SUBSCRIBED]) -> Iterator[cqrs.Send]:
    if isinstance(event, Left):
        yield cqrs.Send("customer", at.aggregate_id, cqrs.Erase())

process = cqrs.Process(react)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the project."""
    return Path(shutil.copytree(PROJECT, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__")))


def load_process_of(folder: Path, subscribed: str) -> None:
    (folder / "processes").mkdir()
    (folder / "processes" / "forgetting.py").write_text(PROCESS.replace("SUBSCRIBED", subscribed))
    load_process("forgetting", folder, "customers")


def load_projection_of(folder: Path, subscribed: str, options: str = "") -> None:
    file = folder / "projections" / "mailing_list.py"
    source = file.read_text().replace("| Left | cqrs.Erased\n", f"| {subscribed}\n")
    file.write_text(source.replace("(project, metadata)", f"(project, metadata{options})"))
    load_projection("mailing_list", folder, "customers")


@pytest.mark.parametrize("subscribed", ["Left", "Registered | cqrs.Erased", "Left | cqrs.Erased"])
def test_process_that_handles_erasures_is_loaded(folder: Path, subscribed: str) -> None:
    load_process_of(folder, subscribed)


def test_process_without_erasures_is_rejected(folder: Path) -> None:
    message = r"processes/forgetting\.py:6: personal fields are in Moved, Registered: subscribe to cqrs\.Erased, too"
    with pytest.raises(ConfigurationError, match=message):
        load_process_of(folder, "Registered | Moved | Left")


def test_projection_without_erasures_is_rejected(folder: Path) -> None:
    message = r"projections/mailing_list\.py:\d+: personal fields are in Moved, Registered: subscribe to cqrs\.Erased"
    with pytest.raises(ConfigurationError, match=message):
        load_projection_of(folder, "Left")


def test_subscription_to_any_event_is_rejected(folder: Path) -> None:
    """Code that accepts any event does not handle erasures."""
    with pytest.raises(ConfigurationError, match=r"subscribe to cqrs\.Erased, too"):
        load_projection_of(folder, "cqrs.Event")


def test_stated_reason_allows_personal_data(folder: Path) -> None:
    load_projection_of(folder, "Left", ", keeps_personal='the law asks for ten years'")
