"""What end-to-end tests share: a project in a folder of its own, on the one broker."""

import shutil
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection import Connection
from tests.e2e.project import Project

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, connection: Connection, prefix: str) -> Project:
    """With all aggregates; its topics are not made yet."""
    (tmp_path / "cqrs.toml").touch()
    shutil.copytree(
        ROOT / "aggregates", tmp_path / "aggregates", ignore=shutil.ignore_patterns("__pycache__")
    )
    return Project(tmp_path, connection, prefix)
