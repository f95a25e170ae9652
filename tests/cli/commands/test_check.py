"""`cqrs check` in a new process and project, whose aggregate changes from call to call."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from tests.cli.conftest import CommandResult
from tests.support import AGGREGATES

Check = Callable[..., CommandResult]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The code of the project's only aggregate, a counter."""
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").mkdir()
    (tmp_path / "aggregates" / "__init__.py").touch()
    return Path(shutil.copy(AGGREGATES / "counter.py", tmp_path / "aggregates"))


@pytest.fixture
def cqrs(source: Path) -> Check:
    def call(*arguments: str) -> CommandResult:
        command = [sys.executable, "-m", "cqrs_cli", *arguments]
        process = subprocess.run(
            command, cwd=source.parents[1], capture_output=True, text=True, check=False, timeout=120
        )
        return CommandResult(process.returncode, process.stdout, process.stderr)

    return call


def change(source: Path, old: str, new: str) -> None:
    """Change the code and its size: within a second, Python uses a cached module if the size is unchanged."""
    text = source.read_text()
    assert old in text and len(old) != len(new)
    source.write_text(text.replace(old, new))


@pytest.mark.program
def test_written_contract_is_green(cqrs: Check, source: Path) -> None:
    without_contract = cqrs("check")
    assert (
        without_contract.status,
        "amber" in without_contract.out,
        "cqrs check --write" in without_contract.out,
    ) == (0, True, True)
    assert cqrs("check", "--write").status == 0
    assert (source.parents[1] / "schemas" / "counter.json").is_file()
    change(source, "Count up, or down", "Comments and docstrings change nothing. Count up, or down")
    result = cqrs("check", "-o", "json")
    assert (result.status, result.document["level"]) == (0, "green")


@pytest.mark.program
def test_renamed_field_is_red(cqrs: Check, source: Path) -> None:
    cqrs("check", "--write")
    change(
        source, "class Incremented(cqrs.Event):\n    by: int", "class Incremented(cqrs.Event):\n    step: int"
    )
    result = cqrs("check", "-o", "json")
    assert (result.status, result.document["level"]) == (1, "red")
    change_document = result.document["aggregates"]["counter"]["changes"][0]
    assert change_document["what"] == "event Incremented, field by: is gone (renamed to step?)"
    assert "define a new event and convert this event by an upcaster" in change_document["do"]
    assert "red  counter  event Incremented, field by: is gone" in cqrs("check").out
    report = cqrs("check", "-o", "github")
    assert report.status == 1
    assert (
        "::error file=aggregates/counter.py,line=1,title=check-red::counter: event Incremented" in report.out
    )
    assert cqrs("check", "--write").status == 0
    assert cqrs("check").status == 0


@pytest.mark.program
def test_forgotten_revision_is_reported(cqrs: Check, source: Path) -> None:
    """Only `evolve` counts, because `decide` may change at any time."""
    cqrs("check", "--write")
    change(source, "if by != 0:", "if by > 0:")
    assert cqrs("check", "-o", "json").document["level"] == "green"
    change(source, "counter.value + by", "counter.value + 2 * by")
    (first_change,) = cqrs("check", "-o", "json").document["aggregates"]["counter"]["changes"]
    assert first_change["what"] == "the code of evolve changed but not the revision"
    assert "Decider(…, revision=2)" in first_change["do"]
    change(source, "initial=Counter()", "initial=Counter(), revision=2")
    (first_change,) = cqrs("check", "-o", "json").document["aggregates"]["counter"]["changes"]
    assert first_change["what"] == "the revision is 2, it was 1"


@pytest.mark.program
def test_lost_aggregate_is_red(cqrs: Check, source: Path) -> None:
    cqrs("check", "--write")
    source.rename(source.with_name("tally.py"))
    result = cqrs("check", "-o", "json")
    assert (result.status, result.document["aggregates"]["counter"]["level"]) == (1, "red")
    assert cqrs("check", "tally").status == 0
    assert cqrs("check", "--write", "tally").status == 0
    assert cqrs("check").status == 1  # only --write without names removes the file
    assert cqrs("check", "--write").status == 0
    assert cqrs("check", "-o", "json").document["level"] == "green"
    assert [path.name for path in (source.parents[1] / "schemas").iterdir()] == ["tally.json"]


@pytest.mark.program
def test_foreign_file_exits_3(cqrs: Check, source: Path) -> None:
    (source.parents[1] / "schemas").mkdir()
    for text in ("{", "[]", "{}", '{"commands": 1}'):
        (source.parents[1] / "schemas" / "counter.json").write_text(text)
        result = cqrs("check")
        assert result.status == 3
        assert "counter.json cannot be compared" in result.err


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_log_names_unreadable_events(cqrs: Check, connection: Connection, prefix: str) -> None:
    broker = ["-b", connection.bootstrap_server, "--topic-prefix", prefix, "-q"]
    assert cqrs("init", *broker).status == 0
    producer = clients.producer(connection)
    event = {"subject": "a", "time": "", "causationid": "c", "eventindex": 0, "eventcount": 1}
    for number, (event_type, data) in enumerate(
        [("Incremented", {"by": 1}), ("Counted", {}), ("Counted", {}), ("WasReset", {"to": "x"})], 1
    ):
        envelope = {
            "id": f"1/{number}/0",
            "type": f"counter.{event_type}",
            "aggregateversion": number,
            "data": data,
        }
        producer.produce(f"{prefix}counter.events", json.dumps(event | envelope).encode(), b"a", 1)
    producer.flush()
    result = cqrs("check", "--log", *broker, "-o", "json")
    assert (result.status, result.document["level"]) == (1, "red")
    log = result.document["logs"]["counter"]
    assert log["events"] == 4
    assert [
        (entry["type"], entry["partition"], entry["offset"], entry["times"]) for entry in log["unreadable"]
    ] == [
        ("counter.Counted", 1, 1, 2),
        ("counter.WasReset", 1, 3, 1),
    ]
    text = cqrs("check", "--log", *broker).out
    assert "1@1: the code knows no event counter.Counted" in text
