"""`compose/` does as `compose/README.md` says."""

import re
import shlex

import pytest

from cqrs_cli.cli import main
from cqrs_cli.cli.context import Call
from tests.support import ROOT
from tests.support.page import Page

TEXT = (ROOT / "compose/README.md").read_text(encoding="utf-8")
COMPOSE = (ROOT / "compose/compose.yaml").read_text(encoding="utf-8")
LINES = Page("compose/README.md").commands()[0]


def test_addresses_are_the_published_ones() -> None:
    published = re.findall(r'ports: \["127\.0\.0\.1:\$\{KAFKA_PORT_\d:-(\d+)\}:', COMPOSE)
    servers = ",".join(f"127.0.0.1:{port}" for port in published)
    assert f"export CQRS_BOOTSTRAP_SERVER={servers}" in LINES


def test_its_variables_have_their_defaults() -> None:
    assert "KAFKA_IMAGE:-apache/kafka:4.1.0" in COMPOSE
    assert "| `KAFKA_IMAGE` | `apache/kafka:4.1.0` |" in TEXT


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("cqrs ")])
def test_its_commands_are_understood(line: str) -> None:
    assert isinstance(main.parse(shlex.split(line)[1:]), Call)
