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
from tests.support.deciding import Owner

pytestmark = pytest.mark.kafka
JSON = ("-o", "json")


@pytest.fixture
def traced(cqrs_on_broker: Cqrs, connection: Connection, prefix: str, tmp_path: Path) -> Cqrs:
    """Two aggregates, with commands of one correlation and other commands."""
    assert cqrs_on_broker("init", "counter", "--partitions", "2").status == 0
    rows: list[dict[str, Any]] = [
        {"type": "bank_account.Open", "subject": "acc", "id": "a", "data": {"owner": "Ada"}},
        {"type": "bank_account.Deposit", "subject": "acc", "id": "b", "data": {"amount": "x"}},
        {"type": "counter.Increment", "subject": "c", "id": "c", "causationid": "a", "data": {"by": 2}},
        {"type": "counter.Increment", "subject": "d", "id": "z", "correlationid": "order-8"},
        {"type": "counter.Increment", "subject": "e", "id": "y"},
    ]
    lines = "".join(json.dumps({"correlationid": "order-9", **row}) + "\n" for row in rows[:-1])
    (tmp_path / "rows.ndjson").write_text(lines + json.dumps(rows[-1]))
    assert cqrs_on_broker("send", "--file", "rows.ndjson").status == 0
    for name in ("bank_account", "counter"):
        aggregate = registry.load(name, "aggregates", AGGREGATES.parent)
        Owner(connection, Topics(name, prefix), aggregate).decide()
    return cqrs_on_broker


def test_a_correlation_finds_its_messages(traced: Cqrs) -> None:
    result = traced("trace", "order-9", *JSON)
    opened, deposited = result.document["commands"]
    assert (opened["id"], opened["outcome"]["status"]) == ("a", "accepted")
    assert [event["type"] for event in opened["events"]] == ["bank_account.Opened"]
    (counted,) = opened["commands"]
    assert (counted["id"], counted["aggregate"], counted["data"]) == ("c", "counter", {"by": 2})
    assert [event["data"] for event in counted["events"]] == [{"by": 2}]
    assert (deposited["id"], deposited["outcome"]["status"]) == ("b", "failed")
    assert deposited["dead_letter"]["reason"].startswith("INVALID_PAYLOAD: ")
    searched = result.document["searched"]
    assert (searched["aggregates"], searched["records"]) == (["bank_account", "counter"], 15)
    assert {"order", "reservation", "sensor"} <= set(searched["missing"])


def test_a_command_finds_its_correlation(traced: Cqrs) -> None:
    expected = traced("trace", "order-9", *JSON).document
    document = traced("trace", "b", *JSON).document
    assert document["commands"] == expected["commands"]
    assert document["correlations"] == ["order-9"]


def test_a_lone_command_is_found(traced: Cqrs) -> None:
    document = traced("trace", "y", *JSON).document
    assert [command["id"] for command in document["commands"]] == ["y"]


def test_an_aggregate_is_tried_last(cqrs: Cqrs, traced: Cqrs, connection: Connection, prefix: str) -> None:
    """The result includes all messages of the correlations of its commands, also in other aggregates."""
    expected = traced("trace", "order-9", *JSON).document
    result = cqrs("trace", "acc", "-b", connection.bootstrap_server, "--topic-prefix", prefix, *JSON)
    assert result.document["commands"] == expected["commands"]
    assert (result.document["searched"]["by"], expected["searched"]["by"]) == ("aggregate", "correlation")
    assert "no correlation and no command has the id acc: it is the id of an aggregate" in result.err


def test_many_correlations_are_not_followed(
    traced: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> None:
    rows = [
        {"type": "bank_account.Open", "subject": "busy", "id": f"b{n}", "data": {"owner": "Bo"}}
        for n in range(60)
    ]
    (tmp_path / "rows.ndjson").write_text("\n".join(map(json.dumps, rows)))
    assert traced("send", "--file", "rows.ndjson").status == 0
    trace = trace_messages(connection, {"bank_account": Topics("bank_account", prefix)}, "busy", 0, print)
    assert (trace.of_aggregate, trace.skipped_correlations, len(trace.messages)) == (True, 60, 60)


def test_text_is_a_tree(cqrs: Cqrs, traced: Cqrs, connection: Connection, prefix: str) -> None:
    place = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    result = cqrs("trace", "order-9", *place)
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


def test_waiting_commands_say_so(cqrs: Cqrs, traced: Cqrs, connection: Connection, prefix: str) -> None:
    """The tree shows missing outcomes, because a tree that ends with a command would look incomplete."""
    place = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    assert traced("send", "counter", "c", "Increment", "--id", "later").status == 0
    *_, sent, last = cqrs("trace", "later", *place).out.splitlines()
    assert "id later" in sent
    assert last.split() == ["└──", "no", "outcome", "yet"]


def test_the_search_is_bounded(traced: Cqrs) -> None:
    result = traced("trace", "order-9", "--since", "2999-01-01")
    assert result.status == 1
    assert result.err.startswith(
        "error: no correlation, no command and no aggregate has the id order-9: searched 0 "
    )
    assert "search further back, with --since 7d; all events of an aggregate: cqrs show " in result.err
    only = traced("trace", "order-9", "--aggregate", "counter", *JSON).document
    assert [command["id"] for command in only["commands"]] == ["c"]


def test_wrong_names_are_told(cqrs: Cqrs) -> None:
    assert "known: bank_account" in cqrs("trace", "x", "--aggregate", "acount").err
    assert "--since: not a time: 'soon'" in cqrs("trace", "x", "--since", "soon").err
