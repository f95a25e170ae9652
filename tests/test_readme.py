"""The README is short, and its examples are correct."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqrs_cli.scaffold import create
from tests.support import ROOT
from tests.support.page import Page, stable_words, typed_commands

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection

PAGE = Page("README.md")
AGGREGATE, TEST = PAGE.blocks("python")
START, INSTALL, TOUR = PAGE.blocks("console")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project of `cqrs new shop` with the README's aggregate in it."""
    create(tmp_path / "shop")
    (tmp_path / "shop/aggregates/theatre.py").write_text(AGGREGATE)
    return tmp_path / "shop"


def python(program: str, folder: Path) -> None:
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)


def cqrs(line: str, folder: Path, **environment: str) -> str:
    name, *arguments = shlex.split(line)
    assert name == "cqrs"
    command = [sys.executable, "-m", "cqrs_cli", *arguments]
    return subprocess.check_output(command, cwd=folder, env={**os.environ, **environment}, text=True)


def test_readme_is_short() -> None:
    assert len(PAGE.text.splitlines()) <= 150
    assert len(PAGE.text.split()) <= 900


def test_aggregate_has_ten_lines() -> None:
    assert len([line for line in AGGREGATE.splitlines() if line.strip()]) == 10


@pytest.mark.program
def test_test_of_the_readme_passes(shop: Path) -> None:
    python(TEST, shop)


@pytest.mark.program
def test_aggregate_keeps_the_laws(shop: Path) -> None:
    python(
        "from cqrs_cli.testing import check_laws; from aggregates import theatre; check_laws(theatre)", shop
    )


def test_install_lines_are_on_the_install_page() -> None:
    shown, tested = {line for line, _ in typed_commands(INSTALL)}, set(Page("docs/install.md").commands()[0])
    assert shown <= tested


def test_first_commands_work_in_a_clone() -> None:
    """CI runs both targets in a new clone."""
    clone, *make = [line for line, _ in typed_commands(START)]
    assert clone == "git clone URL cqrs && cd cqrs"
    assert make == ["make demo", "make test"]
    assert PAGE.text.index(START) < PAGE.text.index(INSTALL) < PAGE.text.index(AGGREGATE)


def test_make_targets_exist() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"make ([\w-]+)", START)) <= set(targets)


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_commands_print_the_shown_output(shop: Path, connection: "Connection", prefix: str) -> None:
    environment = {"CQRS_BOOTSTRAP_SERVER": connection.bootstrap_server, "CQRS_TOPIC_PREFIX": prefix}
    for line, expected in typed_commands(TOUR):
        output = cqrs(line, shop, **environment).replace(prefix, "")
        assert stable_words(output) == stable_words(expected), line
    state = json.loads(cqrs("cqrs show theatre hamlet -o json", shop, **environment))
    assert (state["version"], state["state"]) == (1, {"free": 98})
