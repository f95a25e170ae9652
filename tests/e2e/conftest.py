"""What end-to-end tests share: a project in a folder of its own, on the one broker."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.connection import Connection
from tests.e2e.project import Project, new_project


@pytest.fixture
def project(tmp_path: Path, connection: Connection, prefix: str) -> Project:
    """With all aggregates; its topics are not made yet."""
    return new_project(tmp_path, connection, prefix)
