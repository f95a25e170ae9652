"""Adding a propagated attribute takes one line in the list of propagated attributes."""

import json
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.client.asyncapi import asyncapi
from cqrs_cli.client.envelope import Attributes, create_command, valid_propagated_attributes
from cqrs_cli.client.history import AggregateHistory, history_document
from cqrs_cli.core.messages.attributes import PROPAGATED
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.recorded import read_recorded_event
from cqrs_cli.following.gateway.commands import read_attributes
from cqrs_cli.following.gateway.openapi import describe_api
from cqrs_cli.jobs.export.columns import EventBatches
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.spark.columns import ENVELOPE
from cqrs_cli.spark.event_rows import event_arrays
from tests.core.tally import AGGREGATE, Partition, command, record
from tests.mutations.harness import copy_repository, run_tests

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

#: A value for every attribute. A `tracestate` needs a trace, and the texts of these two have a fixed form.
TEXTS: dict[str, Any] = dict.fromkeys(PROPAGATED, "a=1") | {"traceparent": TRACE}

ATTRIBUTES_FILE, LAST_LINE = "cqrs_cli/core/messages/attributes.py", "    tracestate: str | None = None\n"


@pytest.fixture
def partition() -> Partition:
    """Return a partition that has decided a command with every attribute."""
    partition = Partition()
    partition.decide(record(0, command(**TEXTS)))
    return partition


def test_events_and_outcomes_have_every_attribute(partition: Partition) -> None:
    for value, _, _ in (*partition.events, *partition.outcomes):
        assert TEXTS.items() <= json.loads(value).items()


def test_recorded_events_have_every_attribute(partition: Partition) -> None:
    recorded = read_recorded_event(AGGREGATE, partition.events[0][0], "tally.events", 3, 0)
    assert (
        {name: getattr(recorded, name) for name in PROPAGATED}
        == valid_propagated_attributes(recorded)
        == TEXTS
    )


def test_history_has_every_attribute(partition: Partition) -> None:
    history = AggregateHistory(1, AGGREGATE.decider.initial, None, [read_event(partition.events[0][0])])
    (event,) = history_document("tally", "a", history, events=True)["history"]
    assert TEXTS.items() <= event.items()


def test_spark_has_a_column_per_attribute(partition: Partition) -> None:
    names = list(ENVELOPE["events"])[3:]
    columns = event_arrays([read_event(partition.events[0][0])])
    row = {name: column[0].as_py() for name, column in zip(names, columns, strict=True)}
    assert TEXTS.items() <= row.items()
    assert all(tuple(columns)[-len(PROPAGATED) :] == PROPAGATED for columns in ENVELOPE.values())


def test_exports_have_a_column_per_attribute(partition: Partition) -> None:
    (row,) = (
        EventBatches(AGGREGATE, PartitionLog(Connection("127.0.0.1:1"), Topics("tally"), 3))
        .batch([record(0, partition.events[0][0])])
        .to_pylist()
    )
    assert TEXTS.items() <= row.items()


def test_senders_may_give_every_attribute() -> None:
    command = create_command("tally", "a", "tally.Add", b"{}", "/t", Attributes(**TEXTS))
    assert list(json.loads(command.value))[-len(PROPAGATED) - 1 :] == [*PROPAGATED, "data"]


def test_gateway_reads_attributes_from_headers() -> None:
    assert read_attributes(TEXTS).propagated() == TEXTS
    post: Any = describe_api([AGGREGATE], False, False)["paths"]["/tally/{id}/Add"]["post"]
    assert set(PROPAGATED) <= {parameter["name"] for parameter in post["parameters"]}


@pytest.mark.parametrize("message", ["commands.messages.Add", "events.messages.Added"])
def test_asyncapi_describes_every_attribute(message: str) -> None:
    channel, _, name = message.partition(".messages.")
    document = asyncapi({"tally": AGGREGATE}, "")
    payload = document["channels"][f"tally.{channel}"]["messages"][name]["payload"]
    assert set(PROPAGATED) <= set(payload["properties"]) - set(payload["required"])
    assert set(PROPAGATED) <= set(document["components"]["schemas"]["OutcomeEnvelope"]["properties"])


@pytest.mark.program
@pytest.mark.skipif(len(PROPAGATED) > 2, reason="a copy with one more")
def test_one_line_adds_an_attribute(tmp_path: Path) -> None:
    """The tests of this file pass with an attribute that no other code names."""
    root = copy_repository(tmp_path)
    text = (root / ATTRIBUTES_FILE).read_text(encoding="utf-8")
    (root / ATTRIBUTES_FILE).write_text(
        text.replace(LAST_LINE, LAST_LINE + "    baggage: str | None = None\n"), encoding="utf-8"
    )
    result = run_tests(root, ["tests/test_attributes.py"], None)
    assert result.passed and "1 skipped" in result.output, result.output
