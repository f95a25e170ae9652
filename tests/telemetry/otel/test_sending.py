"""The spans of clients and of the gateway, which the commands that they send have as parents."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, use_span

import cqrs_cli as cqrs
from aggregates.bank_account import Deposit, Open
from cqrs_cli import registry
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.errors import NoOutcomeError
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.telemetry.otel import tracing
from tests.following.gateway.conftest import running_gateway
from tests.following.processes.process_harness import read_records
from tests.support import ROOT
from tests.support.collector import Collector
from tests.support.simple_owner import SimpleOwner

pytestmark = pytest.mark.kafka

TRACE_ID, SENDER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE_ID}-{SENDER}-01", f"00-{TRACE_ID}-{SENDER}-00"


@pytest.fixture
def topics(connection: Connection, prefix: str) -> Iterator[Topics]:
    """The topics of accounts. An owner decides their commands."""
    topics = Topics("bank_account", prefix)
    with Admin(connection) as admin:
        ensure_topics(admin, topics, TopicPlan(partitions=1))
    owner = SimpleOwner(connection, topics, registry.load("bank_account", "aggregates", ROOT))
    with owner.decide_in_background():
        yield topics


def new_client(connection: Connection, prefix: str) -> cqrs.Client:
    return cqrs.Client(ROOT, bootstrap_server=connection.bootstrap_server, topic_prefix=prefix)


def test_client_span_is_the_parent(
    connection: Connection, prefix: str, topics: Topics, collector: Collector
) -> None:
    with new_client(connection, prefix) as client:
        client.send("acc-1", Open("ann"), traceparent=SAMPLED, tracestate="vendor=1").wait()
        client.send("acc-1", Deposit(1), traceparent=UNSAMPLED).wait()
        client.send("acc-1", Deposit(-1)).wait()
    (span,) = collector.spans
    assert (span.name, span.trace, span.parent) == (f"send {topics.commands}", TRACE_ID, SENDER)
    assert span.attributes["cqrs.status"] == "accepted"
    outcomes = [read_outcome(record.value) for record in read_records(connection, topics.outcomes, 0)]
    assert [outcome.traceparent for outcome in outcomes] == [f"00-{TRACE_ID}-{span.id}-01", UNSAMPLED, None]
    assert outcomes[0].tracestate == "vendor=1"


def test_current_span_is_the_default(
    connection: Connection, prefix: str, topics: Topics, collector: Collector
) -> None:
    tracer = TracerProvider().get_tracer("test")
    with new_client(connection, prefix) as client, tracer.start_as_current_span("order") as current:
        client.send("acc-1", Open("ann")).wait()
    (span,) = collector.spans
    assert int(span.parent, 16) == current.get_span_context().span_id


@pytest.mark.parametrize(("length", "kept"), [(100, True), (1000, False)])
def test_long_tracestate_fails_no_command(
    connection: Connection, prefix: str, topics: Topics, collector: Collector, length: int, kept: bool
) -> None:
    """The tracestate of the current span may come from a client of the program."""
    state = TraceState([(f"vendor{number}", "x" * 90) for number in range(length // 100)])
    parent = NonRecordingSpan(SpanContext(7, 8, True, TraceFlags(TraceFlags.SAMPLED), state))
    with new_client(connection, prefix) as client, use_span(parent):
        client.send("acc-1", Open("ann")).wait()
    (outcome,) = map(read_outcome, [record.value for record in read_records(connection, topics.outcomes, 0)])
    assert outcome.tracestate == (state.to_header() if kept else None)


def test_missing_outcome_is_an_error(
    connection: Connection, prefix: str, topics: Topics, collector: Collector
) -> None:
    with new_client(connection, prefix) as client, pytest.raises(NoOutcomeError):
        client.send("acc-1", Open("ann"), traceparent=SAMPLED, timeout=0.0).wait()
    (span,) = collector.spans
    assert span.attributes["cqrs.status"] == "NO_OUTCOME"
    assert span.is_error


def test_gateway_span_is_the_parent(
    connection: Connection, topics: Topics, collector: Collector, tmp_path: Path
) -> None:
    with tracing.tracing(print), running_gateway(connection, topics, tmp_path) as gateway:
        assert gateway.post("acc-1", "Open", {"owner": "ann"}, traceparent=SAMPLED).status == 200
    (span,) = collector.spans
    assert (span.name, span.trace, span.parent) == (f"send {topics.commands}", TRACE_ID, SENDER)
