"""Flags in hints: a copied command reaches the cluster and the topics of the failed command."""

import pytest

from cqrs_cli.cli.app import PANELS
from cqrs_cli.cli.hints import with_flags


@pytest.mark.parametrize(
    "command",
    [
        "init orders",
        "certificate orders",
        "deferred list orders",
        "erase orders",
        "project counts",
        "rebuild orders",
        "top orders",
    ],
)
def test_command_gets_cluster_flags(command: str) -> None:
    flags = {"bootstrap_server": "kafka:9092", "properties": ["a=b", "c=d e"], "topic_prefix": None}
    name, _, aggregate = command.rpartition(" ")

    hint = with_flags(f"start it: cqrs {command}", flags)

    assert hint == f"start it: cqrs {name} -b kafka:9092 -X a=b -X 'c=d e' {aggregate}"


def test_commands_without_cluster_get_no_flags() -> None:
    hints = {name: f"see: cqrs {name} list" for name in PANELS}

    without_flags = {name for name, hint in hints.items() if with_flags(hint, {"topic_prefix": "a."}) == hint}

    assert without_flags == {"new", "add", "demo", "describe", "check", "warm", "kafka"}


@pytest.mark.parametrize("hint", ["start it: cqrs kafka start", "make one: cqrs new DIR", "wait"])
def test_other_hint_is_unchanged(hint: str) -> None:
    assert with_flags(hint, {"bootstrap_server": "kafka:9092"}) == hint
