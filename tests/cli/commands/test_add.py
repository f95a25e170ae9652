import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import cqrs_cli as cqrs
from cqrs_cli import scaffold
from cqrs_cli.cli.main import main
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.projections.load import load_projection
from cqrs_cli.testing import process, projection
from cqrs_cli.version import __version__


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project in the working directory."""
    scaffold.create(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_aggregate_and_its_test_are_added(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["add", "purchase_order", "-o", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["files"] == ["aggregates/purchase_order.py", "tests/test_purchase_order.py"]
    assert "class PurchaseOrder(cqrs.State)" in (project / document["files"][0]).read_text()


@pytest.mark.slow
def test_code_passes_tests_and_linters(project: Path) -> None:
    """A new project's code and the added code pass, also with a name that the file or its test uses."""
    names = ["purchase_order", "register", "nothing", "first"]
    for name in names:
        assert main(["add", name, "-q"]) == 0
    assert main(["add", "process", "--process", "inventory", "-q"]) == 0
    assert main(["add", "event", "--projection", "inventory", "-q"]) == 0
    (project / "aggregates/member.py").write_text(PERSONAL_AGGREGATE.lstrip())
    assert main(["add", "welcome", "--process", "member", "-q"]) == 0
    assert main(["add", "members", "--projection", "member", "-q"]) == 0
    names += ["process", "event", "welcome", "members"]
    for tool in (
        ["pytest", "-q", *(f"tests/test_{name}.py" for name in names)],
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy", "--strict", "."],
    ):
        process = subprocess.run([sys.executable, "-m", *tool], cwd=project, capture_output=True, text=True)
        assert process.returncode == 0, process.stdout


def test_process_and_its_test_are_added(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["add", "restock", "--process", "inventory", "-o", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["files"] == ["processes/__init__.py", "processes/restock.py", "tests/test_restock.py"]
    assert "def react(event: Received, at" in (project / "processes/restock.py").read_text()
    assert main(["add", "restock", "--process", "inventory"]) == 2
    assert main(["add", "other", "--process", "nobody"]) == 2
    assert main(["add", "Other", "--process", "inventory"]) == 2
    assert "'Other' is not a valid name of a process manager" in capfd.readouterr().err


def test_projection_and_its_test_are_added(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["add", "receipts", "--projection", "inventory", "-o", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    files = ["projections/__init__.py", "projections/receipts.py", "tests/test_receipts.py"]
    assert document["files"] == files
    assert document["next"] == ["python -m pytest tests/test_receipts.py", "cqrs project receipts --once"]
    projection = load_projection("receipts", project, "aggregates")
    assert projection.event_names == ("Received",)
    assert main(["add", "receipts", "--projection", "inventory"]) == 2
    assert main(["add", "x" * 51, "--projection", "inventory"]) == 2
    assert "is not a valid name of a projection" in capfd.readouterr().err
    assert main(["add", "both", "--projection", "inventory", "--process", "inventory"]) == 2


def test_missing_folders_are_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cqrs.toml").write_text('aggregates = "shop.domain"')
    monkeypatch.chdir(tmp_path)
    assert main(["add", "invoice", "-q"]) == 0
    assert (tmp_path / "shop/domain/__init__.py").exists() and (tmp_path / "tests/__init__.py").exists()
    assert "from shop.domain import invoice" in (tmp_path / "tests/test_invoice.py").read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Invoice", "'Invoice' is not a valid name of an aggregate"),
        ("_invoice", "is not a valid name of an aggregate"),
        ("in-voice", "is not a valid name of an aggregate"),
        ("class", "is not a valid name of an aggregate"),
        ("../x", "is not a valid name of an aggregate"),
        ("inventory", "aggregates/inventory.py exists already"),
    ],
)
def test_invalid_names_exit_2(
    project: Path, capfd: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    files = sorted(project.rglob("*"))
    assert main(["add", name]) == 2
    assert message in capfd.readouterr().err
    assert sorted(project.rglob("*")) == files


def test_pyproject_has_the_dependencies(tmp_path: Path) -> None:
    scaffold.create(tmp_path / "My Shop!")
    document = tomllib.loads((tmp_path / "My Shop!" / "pyproject.toml").read_text())
    assert document["project"]["name"] == "my-shop"
    assert document["project"]["dependencies"] == [f"cqrs-cli[gateway,projections]>={__version__}"]
    assert document["project"]["optional-dependencies"]["dev"][:3] == [
        "cqrs-cli[java]",
        "pytest",
        "hypothesis",
    ]


RICH_AGGREGATE = """
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal

import cqrs_cli as cqrs


@dataclass(frozen=True)
class Address:
    city: str


class Pay(cqrs.Command):
    to: Address


class Moved(cqrs.Event):
    to: Address


class Paid(cqrs.Event):
    amount: Decimal
    at: datetime
    how: Literal["card", "cash"]
    lines: tuple[str, ...]
    note: str | None


class Order(cqrs.State):
    paid: bool = False


def decide(command: Pay, order: Order) -> list[Moved | Paid]:
    return [Moved(command.to)]


def evolve(order: Order, event: Moved | Paid) -> Order:
    return order


decider = cqrs.Decider(decide, evolve, initial=Order())
"""


@pytest.mark.program
def test_process_of_rich_events_is_added(project: Path) -> None:
    """The generated test has a value for each field that needs one, and passes."""
    (project / "aggregates/rich.py").write_text(RICH_AGGREGATE)
    assert main(["add", "answer", "--process", "rich", "-q"]) == 0
    test = (project / "tests/test_answer.py").read_text()
    assert (
        "Paid(amount=Decimal(1), at=datetime(2026, 1, 1, tzinfo=UTC), how='card', lines=(), note=\"text\")"
        in test
    )
    command = [sys.executable, "-m", "pytest", "-q", "tests/test_answer.py"]
    process = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout


PERSONAL_AGGREGATE = """
import cqrs_cli as cqrs


class Join(cqrs.Command):
    name: cqrs.Personal[str]


class Joined(cqrs.Event):
    name: cqrs.Personal[str]


class Member(cqrs.State):
    name: cqrs.Personal[str] = ""


def decide(command: Join, member: Member) -> list[Joined]:
    return [Joined(command.name)]


def evolve(member: Member, event: Joined) -> Member:
    return Member(event.name)


decider = cqrs.Decider(decide, evolve, initial=Member())
"""


def test_process_of_personal_events_handles_erased(project: Path) -> None:
    (project / "aggregates/member.py").write_text(PERSONAL_AGGREGATE)
    assert main(["add", "welcome", "--process", "member", "-q"]) == 0
    loaded_process = load_process("welcome", project, "aggregates")
    assert {event.__name__ for event in loaded_process.events} == {"Joined", "Erased"}
    process(loaded_process.process).when(cqrs.Erased("key")).sends()


def test_projection_of_personal_events_handles_erased(project: Path) -> None:
    (project / "aggregates/member.py").write_text(PERSONAL_AGGREGATE)
    assert main(["add", "members", "--projection", "member", "-q"]) == 0
    loaded_projection = load_projection("members", project, "aggregates")
    assert loaded_projection.event_names == ("Erased", "Joined")
    joined = importlib.import_module("aggregates.member").Joined("Ann")
    table = loaded_projection.projection.metadata.tables["members"]
    rows = (
        projection(loaded_projection.projection)
        .when(joined)
        .rows(table, {"aggregate_id": "id-1", "times": 1})
    )
    rows.when(cqrs.Erased("key")).rows(table)
