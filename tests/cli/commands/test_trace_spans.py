"""`cqrs trace -o otlp` sends the messages of a correlation as spans, over real HTTP."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from cqrs_cli import registry
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES
from tests.support.commands import send_unchecked
from tests.support.simple_owner import SimpleOwner

if TYPE_CHECKING:
    from tests.support.collector import Collector

pytest.importorskip("opentelemetry", reason="needs the extra `otel`")

VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Collector]":
    from tests.support.collector import collector as running

    with running() as server:
        monkeypatch.setenv(VARIABLE, server.endpoint)
        yield server


@pytest.fixture
def cqrs_with_command(cqrs_on_broker: Cqrs, connection: Connection, prefix: str) -> Cqrs:
    """`cqrs` on topics with a decided command, which has no trace, of the correlation order-9."""
    command = {"type": "bank_account.Open", "subject": "acc", "id": "a", "correlationid": "order-9"}
    send_unchecked(connection, prefix, [{**command, "data": {"owner": "Ada"}}])
    aggregate = registry.load("bank_account", "aggregates", AGGREGATES.parent)
    SimpleOwner(connection, Topics("bank_account", prefix), aggregate).decide()
    return cqrs_on_broker


@pytest.mark.kafka
def test_spans_sent_again_are_the_same(cqrs_with_command: Cqrs, collector: "Collector") -> None:
    first, second = (cqrs_with_command("trace", "order-9", "-o", "otlp") for _ in range(2))
    span, repeated_span = collector.spans
    assert (span.trace, span.id, span.parent) == (repeated_span.trace, repeated_span.id, "")
    assert span.attributes["cqrs.status"] == "accepted"
    assert first.out == second.out == f"sent 1 span to {collector.endpoint}: trace {span.trace}\n"


@pytest.mark.kafka
def test_undecided_commands_have_no_spans(cqrs_on_broker: Cqrs, collector: "Collector") -> None:
    cqrs_on_broker("send", "bank_account", "acc", "Open", "owner=Ada", "--id", "c-1")
    result = cqrs_on_broker("trace", "c-1", "-o", "otlp")
    assert result.out == "there are no spans to send: none of the commands found is decided\n"


@pytest.mark.kafka
def test_hanging_collector_is_named(
    cqrs_with_command: Cqrs, collector: "Collector", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.3")
    collector.answers.clear()
    result = cqrs_with_command("trace", "order-9", "-o", "otlp")
    assert result.status == 4
    assert (
        f"error: the collector did not take the spans: {collector.endpoint}; check the address" in result.err
    )


def test_spans_need_a_collector(cqrs: Cqrs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    result = cqrs("trace", "order-9", "-o", "otlp")
    assert result.status == 3
    assert "no collector is configured; set OTEL_EXPORTER_OTLP_ENDPOINT" in result.err


def test_other_commands_send_no_spans(cqrs: Cqrs) -> None:
    assert cqrs("status", "-o", "otlp").status == 2
