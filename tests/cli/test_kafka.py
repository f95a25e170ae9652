import json
from pathlib import Path

import pytest

from cqrs_cli.cli.main import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cqrs.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_status_of_a_stopped_broker_is_printed_and_exits_4(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["kafka", "status", "-o", "json"]) == 4
    document = json.loads(capfd.readouterr().out)
    assert document["running"] is False
    assert document["bootstrap_server"] is None
    assert document["data"] == str(project / ".cqrs/kafka/data")


def test_stopping_what_does_not_run_is_no_error(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["kafka", "stop", "-q"]) == 0
    assert capfd.readouterr().out == "the embedded Kafka was not running\n"


def test_without_java_a_start_exits_4_and_says_what_to_install(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(project))
    assert main(["kafka", "start"]) == 4
    assert "error: Java is not installed; install" in capfd.readouterr().err


@pytest.mark.kafka
def test_a_running_broker_says_where_it_is(
    kafka_root: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (kafka_root / "cqrs.toml").touch()
    monkeypatch.chdir(kafka_root)
    assert main(["kafka", "start", "-o", "json"]) == 0
    started = json.loads(capfd.readouterr().out)
    assert main(["kafka", "status", "-o", "json"]) == 0
    assert json.loads(capfd.readouterr().out) == started
    assert started["running"] is True
    assert started["version"] == "4.1.0"
    assert Path(started["log"]).is_file()
