"""`cqrs trace` finds all messages of a correlation, in several aggregates."""

import json
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli import registry
from cqrs_cli.client.queries.trace import trace_messages
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES
from tests.support.commands import send_unchecked
from tests.support.simple_owner import SimpleOwner

pytestmark = pytest.mark.kafka
JSON = ("-o", "json")


@pytest.fixture
def cqrs_with_correlations(cqrs_on_broker: Cqrs, connection: Connection, prefix: str, tmp_path: Path) -> Cqrs:
    """`cqrs` on topics of two aggregates, with commands of the correlation order-9 and other commands."""
    assert cqrs_on_broker("init", "counter", "--partitions", "2").status == 0
    rows: list[dict[str, Any]] = [
        {"type": "bank_account.Open", "subject": "acc", "id": "a", "data": {"owner": "Ada"}},
        {"type": "bank_account.Deposit", "subject": "acc", "id": "b", "data": {"amount": "x"}},
        {"type": "counter.Increment", "subject": "c", "id": "c", "causationid": "a", "data": {"by": 2}},
        {"type": "counter.Increment", "subject": "d", "id": "z", "correlationid": "order-8"},
        {"type": "counter.Increment", "subject": "e", "id": "y"},
    ]
    send_unchecked(connection, prefix, [{"correlationid": "order-9", **row} for row in rows[:-1]] + rows[-1:])
    for name in ("bank_account", "counter"):
        aggregate = registry.load(name, "aggregates", AGGREGATES.parent)
        SimpleOwner(connection, Topics(name, prefix), aggregate).decide()
    return cqrs_on_broker


def test_a_correlation_finds_its_messages(cqrs_with_correlations: Cqrs) -> None:
    result = cqrs_with_correlations("trace", "order-9", *JSON)
    open_command, deposit_command = result.document["commands"]
    assert (open_command["id"], open_command["outcome"]["status"]) == ("a", "accepted")
    assert [event["type"] for event in open_command["events"]] == ["bank_account.Opened"]
    (increment_command,) = open_command["commands"]
    assert (increment_command["id"], increment_command["aggregate"], increment_command["data"]) == (
        "c",
        "counter",
        {"by": 2},
    )
    assert [event["data"] for event in increment_command["events"]] == [{"by": 2}]
    assert (deposit_command["id"], deposit_command["outcome"]["status"]) == ("b", "failed")
    assert deposit_command["dead_letter"]["reason"].startswith("INVALID_PAYLOAD: ")
    searched = result.document["searched"]
    assert (searched["aggregates"], searched["records"]) == (["bank_account", "counter"], 15)
    assert {"order", "reservation", "sensor"} <= set(searched["missing"])


def test_a_command_finds_its_correlation(cqrs_with_correlations: Cqrs) -> None:
    expected = cqrs_with_correlations("trace", "order-9", *JSON).document
    document = cqrs_with_correlations("trace", "b", *JSON).document
    assert document["commands"] == expected["commands"]
    assert document["correlations"] == ["order-9"]


def test_command_without_correlation_is_found(cqrs_with_correlations: Cqrs) -> None:
    document = cqrs_with_correlations("trace", "y", *JSON).document
    assert [command["id"] for command in document["commands"]] == ["y"]


def test_aggregate_ids_are_searched_last(
    cqrs: Cqrs, cqrs_with_correlations: Cqrs, connection: Connection, prefix: str
) -> None:
    """The result also includes the messages in other aggregates that have a correlation of the aggregate's commands."""
    expected = cqrs_with_correlations("trace", "order-9", *JSON).document
    result = cqrs("trace", "acc", "-b", connection.bootstrap_server, "--topic-prefix", prefix, *JSON)
    assert result.document["commands"] == expected["commands"]
    assert (result.document["searched"]["by"], expected["searched"]["by"]) == ("aggregate", "correlation")
    assert "no correlation and no command has the id acc: it is the id of an aggregate" in result.err


def test_many_correlations_are_not_followed(
    cqrs_with_correlations: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    rows = [
        {"type": "bank_account.Open", "subject": "busy", "id": f"b{n}", "data": {"owner": "Bo"}}
        for n in range(60)
    ]
    (tmp_path / "rows.ndjson").write_text("\n".join(map(json.dumps, rows)))
    assert cqrs_with_correlations("send", "--file", "rows.ndjson").status == 0
    trace = trace_messages(connection, {"bank_account": Topics("bank_account", prefix)}, "busy", 0, print)
    assert (trace.is_aggregate_id, trace.skipped_correlations, len(trace.messages)) == (True, 60, 60)


def test_text_is_a_tree(
    cqrs: Cqrs, cqrs_with_correlations: Cqrs, connection: Connection, prefix: str
) -> None:
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    result = cqrs("trace", "order-9", *broker_flags)
    lines = [line.split("Z  ")[-1].split("  id ")[0] for line in result.out.splitlines()]
    assert lines == [
        "order-9",
        'bank_account acc  Open {"owner":"Ada"}',
        "│   ├── accepted  version 1",
        '│   ├── v1  Opened {"owner":"Ada"}',
        'counter c  Increment {"by":2}',
        "│       ├── accepted  version 1",
        '│       └── v1  Incremented {"by":2}',
        'bank_account acc  Deposit {"amount":"x"}',
        "    ├── failed  version 1  INVALID_PAYLOAD  Expected `int`, got `str` - at `$.amount`",
        "    └── dead letter  INVALID_PAYLOAD: Expected `int`, got `str` - at `$.amount`",
    ]
    assert "searched 15 records since 20" in result.err


def test_missing_outcomes_are_shown(
    cqrs: Cqrs, cqrs_with_correlations: Cqrs, connection: Connection, prefix: str
) -> None:
    """A missing outcome has a line of its own. Otherwise the tree would look cut off after its command."""
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    assert cqrs_with_correlations("send", "counter", "c", "Increment", "--id", "later").status == 0
    *_, command_line, last_line = cqrs("trace", "later", *broker_flags).out.splitlines()
    assert "id later" in command_line
    assert last_line.split() == ["└──", "no", "outcome", "yet"]


def test_the_search_has_limits(cqrs_with_correlations: Cqrs) -> None:
    result = cqrs_with_correlations("trace", "order-9", "--since", "2999-01-01")
    assert result.status == 1
    assert result.err.startswith(
        "error: no correlation, no command and no aggregate has the id order-9: searched 0 "
    )
    assert "search further back, with --since 7d; all events of an aggregate: cqrs show " in result.err
    document = cqrs_with_correlations("trace", "order-9", "--aggregate", "counter", *JSON).document
    assert [command["id"] for command in document["commands"]] == ["c"]


def test_unknown_names_are_errors(cqrs: Cqrs) -> None:
    assert "known: bank_account" in cqrs("trace", "x", "--aggregate", "acount").err
    assert "--since: not a time: 'soon'" in cqrs("trace", "x", "--since", "soon").err
