"""Schemas and commands with sets are equal in every process, with any hash seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

BASKET = """
import msgspec
import cqrs_cli as cqrs

NAMES = "new open red green blue".split()

class Label(msgspec.Struct, frozen=True):
    names: frozenset[str] = frozenset(NAMES)

class Tag(cqrs.Command):
    tags: frozenset[str]

class Tagged(cqrs.Event):
    tags: frozenset[str]
    label: Label = Label(frozenset("abcdefgh"))

class Basket(cqrs.State):
    tags: frozenset[str] = frozenset(NAMES)

def decide(command: Tag, basket: Basket) -> list[Tagged]:
    return [Tagged(command.tags)]

def evolve(basket: Basket, event: Tagged) -> Basket:
    return basket

decider = cqrs.Decider(decide, evolve, initial=Basket())
"""
PROGRAM = """
import msgspec, cqrs_cli as cqrs
from pathlib import Path
from cqrs_cli.client.envelope import Attributes
from cqrs_cli.client.field_values import command_data
from cqrs_cli.core.aggregate.json_schema import aggregate_schema
from cqrs_cli.following.gateway.commands import read_request_command
from cqrs_cli.registry import load

basket = load("basket", "aggregates", Path.cwd())
print(basket.schema_digest, msgspec.json.encode(aggregate_schema(basket)))
Tag, names = basket.commands["basket.Tag"], "new open red green blue".split()
print(command_data(basket, "basket.Tag", [f"tags={name}" for name in names]))
print(read_request_command(basket, "Tag", msgspec.json.encode({"tags": names})))
client = cqrs.Client(Path.cwd(), bootstrap_server="127.0.0.1:1")
print(client._compose("b", Tag(frozenset(names)), None, Attributes(id="x")))
"""


@pytest.mark.covers("state-is-events")
def test_hash_seed_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "aggregates").mkdir()
    (tmp_path / "aggregates" / "basket.py").write_text(BASKET)
    (tmp_path / "cqrs.toml").write_text("")
    assert len({program_output(tmp_path, seed) for seed in (0, 1, 2, 3)}) == 1


def program_output(folder: Path, seed: int) -> str:
    environment = os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM]
    process = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout
