"""`cqrs show` on topics that an owner has decided."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cqrs

pytestmark = pytest.mark.kafka


def test_show_folds_one_aggregates_events(cqrs_on_decisions: Cqrs) -> None:
    document = cqrs_on_decisions("show", "bank_account", "a", "-o", "json").document
    assert (document["aggregate"], document["id"], document["version"]) == ("bank_account", "a", 3)
    assert document["state"] == {"owner": "Ada", "balance": 70, "closed": False}


def test_show_at_version_or_time(cqrs_on_decisions: Cqrs) -> None:
    history = cqrs_on_decisions("show", "bank_account", "a", "--history", "-o", "json").document["history"]
    assert [event["type"] for event in history] == [
        f"bank_account.{t}" for t in ("Opened", "Deposited", "Withdrawn")
    ]
    for position in ("2", history[1]["time"]):
        document = cqrs_on_decisions("show", "bank_account", "a", "--at", position, "-o", "json").document
        assert (document["version"], document["state"]["balance"]) == (2, 100)


def test_unknown_ids_end_with_1(cqrs_on_decisions: Cqrs) -> None:
    result = cqrs_on_decisions("show", "bank_account", "unknown")
    assert result.status == 1 and "no bank_account has the id 'unknown': its version is 0" in result.err


def test_ids_are_listed_without_an_id(cqrs_on_decisions: Cqrs) -> None:
    document = cqrs_on_decisions("show", "bank_account", "-o", "json").document
    assert {"id": "a", "version": 3} in document["aggregates"]
    assert "a  version 3\n" in cqrs_on_decisions("show", "bank_account").out
    assert cqrs_on_decisions("show", "bank_account", "--history").status == 2


def test_show_before_the_first_event(cqrs_on_decisions: Cqrs) -> None:
    result = cqrs_on_decisions("show", "bank_account", "a", "--at", "2020-01-01T00:00:00Z")
    assert result.status == 0 and "bank_account a  version 0, it did not exist yet" in result.out


def test_showing_future_versions_ends_with_2(cqrs_on_decisions: Cqrs) -> None:
    result = cqrs_on_decisions("show", "bank_account", "a", "--at", "9")
    assert (result.status, result.err) == (
        2,
        "error: bank_account a is at version 3, not 9; leave --at out to see it\n",
    )


def test_show_searches_partitions_without_a_partitioner(
    cqrs_on_decisions: Cqrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CQRS_PARTITIONER", "none")
    assert cqrs_on_decisions("show", "bank_account", "a", "-o", "json").document["version"] == 3


def test_show_text_has_state_and_history(cqrs_on_decisions: Cqrs) -> None:
    result = cqrs_on_decisions("show", "bank_account", "a", "--history")
    assert result.out.startswith("bank_account a  version 3, since 20")
    assert "balance" in result.out
    assert "Withdrawn" in result.out


def test_show_at_offsets(cqrs_on_decisions: Cqrs, tmp_path: Path) -> None:
    events = cqrs_on_decisions("tail", "bank_account", "events", "--aggregate-id", "a", "-o", "json").lines
    partition = events[1]["partition"]
    (tmp_path / "positions").write_text(json.dumps({partition: events[1]["offset"], 1 - partition: 0}))
    document = cqrs_on_decisions("show", "bank_account", "a", "--at", "@positions", "-o", "json").document
    assert (document["version"], document["state"]["balance"]) == (1, 0)
