"""`cqrs show` on topics that an owner has decided."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cqrs

pytestmark = pytest.mark.kafka


def test_show_folds_one_aggregates_events(decided: Cqrs) -> None:
    document = decided("show", "bank_account", "a", "-o", "json").document
    assert (document["aggregate"], document["id"], document["version"]) == ("bank_account", "a", 3)
    assert document["state"] == {"owner": "Ada", "balance": 70, "closed": False}


def test_show_at_version_or_time(decided: Cqrs) -> None:
    history = decided("show", "bank_account", "a", "--history", "-o", "json").document["history"]
    assert [event["type"] for event in history] == [
        f"bank_account.{t}" for t in ("Opened", "Deposited", "Withdrawn")
    ]
    for position in ("2", history[1]["time"]):
        document = decided("show", "bank_account", "a", "--at", position, "-o", "json").document
        assert (document["version"], document["state"]["balance"]) == (2, 100)


def test_unknown_aggregates_have_version_0(decided: Cqrs) -> None:
    result = decided("show", "bank_account", "nobody", "-o", "json")
    assert (result.status, result.document["version"]) == (0, 0)


def test_showing_future_versions_ends_with_2(decided: Cqrs) -> None:
    result = decided("show", "bank_account", "a", "--at", "9")
    assert (result.status, result.err) == (
        2,
        "error: bank_account a is at version 3, not 9; leave --at out to see it\n",
    )


def test_show_searches_partitions_without_a_partitioner(
    decided: Cqrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CQRS_PARTITIONER", "none")
    assert decided("show", "bank_account", "a", "-o", "json").document["version"] == 3


def test_show_text_has_state_and_history(decided: Cqrs) -> None:
    result = decided("show", "bank_account", "a", "--history")
    assert result.out.startswith("bank_account a  version 3, since 20")
    assert "balance" in result.out
    assert "Withdrawn" in result.out


def test_show_goes_back_to_offsets(decided: Cqrs, tmp_path: Path) -> None:
    tail = decided("tail", "bank_account", "events", "--aggregate-id", "a", "-o", "json").lines
    home = tail[1]["partition"]
    (tmp_path / "positions").write_text(json.dumps({home: tail[1]["offset"], 1 - home: 0}))
    document = decided("show", "bank_account", "a", "--at", "@positions", "-o", "json").document
    assert (document["version"], document["state"]["balance"]) == (1, 0)
