"""An aggregate that cannot be loaded, or has no topics yet, does not affect the other aggregates."""

import shutil
from pathlib import Path

import pytest

from cqrs_cli.deciding.prepare import without_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import load_settings
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES

BROKEN = "left out: aggregates/broken.py:1: ZeroDivisionError: division by zero"


@pytest.fixture
def pieces(cqrs: Cqrs, tmp_path: Path) -> Cqrs:
    """`cqrs` in a project of two aggregates that can be loaded and a third that cannot."""
    (tmp_path / "aggregates").unlink()
    package = tmp_path / "aggregates"
    package.mkdir()
    shutil.copy(AGGREGATES / "counter.py", package / "counter.py")
    shutil.copy(AGGREGATES / "counter.py", package / "fresh.py")
    (package / "broken.py").write_text("1 / 0\n")
    return cqrs


def test_the_others_are_described(pieces: Cqrs) -> None:
    result = pieces("describe")
    assert result.status == 0 and "counter" in result.out and BROKEN in result.err


def test_broken_one_is_named_alone(pieces: Cqrs) -> None:
    result = pieces("describe", "broken")
    assert result.status == 3 and "error: aggregates/broken.py:1: ZeroDivisionError" in result.err


def test_project_of_broken_ones_fails(pieces: Cqrs, tmp_path: Path) -> None:
    for name in ("counter", "fresh"):
        (tmp_path / "aggregates" / f"{name}.py").unlink()
    result = pieces("describe")
    assert result.status == 3 and "error: aggregates/broken.py:1" in result.err


@pytest.mark.kafka
def test_others_get_topics_and_status(
    pieces: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    cluster = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    assert pieces("init", "counter", *cluster).status == 0
    settings = load_settings({"topic_prefix": prefix}, tmp_path)
    assert without_topics(settings, connection, ["counter", "fresh"]) == ["fresh"]
    assert without_topics(settings, connection, ["fresh"]) == []  # `prepare` reports missing topics
    result = pieces("status", *cluster)
    assert result.status == 0 and "counter" in result.out and BROKEN in result.err
    result = pieces("init", *cluster)
    assert result.status == 3 and "fresh.commands" in result.out and BROKEN in result.err
    assert without_topics(settings, connection, ["counter", "fresh"]) == []
