"""A session keeps the logs of earlier and of concurrent sessions."""

import os
from pathlib import Path

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.runs.session_log import KEPT_LOGS, session_log


def write(log: Path, text: str) -> Path:
    with session_log(log) as (path, output):
        os.write(output, text.encode())
    return path


def test_last_logs_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "log" / "run.log"
    for number in range(6):
        assert write(log, f"{number}") == log
    assert [log.read_text(), *(Path(f"{log}.{number}").read_text() for number in (1, 2, 3))] == [
        "5",
        "4",
        "3",
        "2",
    ]
    assert len([*log.parent.iterdir()]) == 1 + KEPT_LOGS


def test_second_session_has_its_own_log(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    with session_log(log) as (path, output):
        assert write(log, "second") == tmp_path / "run.2.log"
        os.write(output, b"first")
        assert path.read_text() == "first"
    assert write(log, "third") == log


def test_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("")
    with pytest.raises(ConfigurationError, match="cannot write"):
        write(tmp_path / "log" / "run.log", "x")
