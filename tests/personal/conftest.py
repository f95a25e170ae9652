"""Readers with and without a keyring."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.personal.people import People


@pytest.fixture
def people(connection: Connection, prefix: str, tmp_path: Path) -> People:
    return People(connection, prefix, tmp_path)
