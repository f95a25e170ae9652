"""One trace on the real broker: a command, its events, a process manager, the commands that it sends, a projection."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.client.queries.trace import trace_messages
from cqrs_cli.client.queries.trace_spans import trace_spans
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.projections.database import parse_database
from cqrs_cli.following.projections.prepare import prepare_projection, stable_ends
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.following.processes.process_harness import ProcessHarness
from tests.following.projections.projector_harness import error_texts, recent_orders
from tests.support.collector import Collector
from tests.support.commands import CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan_task

pytestmark = pytest.mark.kafka

TRACE_ID, SENDER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE_ID}-{SENDER}-01", f"00-{TRACE_ID}-{SENDER}-00"


@pytest.fixture
def orders(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return TopicHarness(connection, prefix, tmp_path, "order")


def place(number: int, **attributes: str) -> CommandRecord:
    return command("order.Place", f"o-{number}", f"c{number}", {"customer": "ann"}, **attributes)


def test_batch_links_sampled_commands(orders: TopicHarness, collector: Collector) -> None:
    orders.send(place(1, traceparent=SAMPLED), place(2, traceparent=UNSAMPLED), place(3))
    orders.send(command("order.Place", "o-1", "c4", {"customer": 7}, traceparent=SAMPLED))
    run_plan_task(orders.plan())
    name = f"process {orders.topics.commands}"
    accepted, failed = collector.find(name, status="accepted"), collector.find(name, status="failed")
    assert (accepted.trace, accepted.parent) == (TRACE_ID, SENDER)
    assert (failed.attributes["cqrs.reason"], failed.is_error) == ("INVALID_PAYLOAD", True)
    batch = next(span for span in collector.spans if span.links)
    locations = [
        (trace, span_id, *(attributes[f"messaging.{key}"] for key in ("kafka.offset", "kafka.message.key")))
        for trace, span_id, attributes in batch.links
    ]
    assert locations == [(TRACE_ID, SENDER, 0, "o-1"), (TRACE_ID, SENDER, 3, "o-1")]
    assert batch.attributes["messaging.batch.message_count"] == 4
    assert len(collector.spans) == 3


@pytest.mark.usefixtures("collector")
def test_unusable_number_prevents_a_claim(orders: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker may have other variables than the driver, which checks its own."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "0")
    assert isinstance(run_plan_task(orders.plan())[0].error, ConfigurationError)
    assert orders.position_and_claim() == (None, None)


def test_command_and_effects_are_one_trace(
    orders: TopicHarness, connection: Connection, prefix: str, tmp_path: Path, collector: Collector
) -> None:
    checkout = ProcessHarness(connection, prefix, state_dir=tmp_path / "state")
    payments = TopicHarness(connection, prefix, tmp_path, "payment")
    orders.send(place(1, traceparent=SAMPLED))
    run_plan_task(orders.plan())
    checkout.run_once(from_beginning=True)
    for harness in (payments, orders):
        run_plan_task(harness.plan())
    database = parse_database("sqlite:///db", tmp_path)
    run = prepare_projection(checkout.settings, connection, recent_orders(), database, print)
    plan = run.new or run.live
    plan = replace(plan, end_offsets=stable_ends(plan))
    assert error_texts(project_partitions(plan, plan.sources, recent_orders(), print)) == []

    deciding, reading = f"process {orders.topics.commands}", f"process {orders.topics.events}"
    placed = collector.find(deciding, type="order.Place", status="accepted")
    reaction = collector.find(reading, process="checkout")
    sent = {name: collector.find(f"send {prefix}{name}.commands") for name in ("payment", "order")}
    requested = collector.find(f"process {payments.topics.commands}", type="payment.Request")
    deferred = collector.find(deciding, type="order.Cancel", status="deferred")
    projected = collector.find(reading, projection="recent_orders")
    assert placed.parent == SENDER
    assert reaction.parent == projected.parent == placed.id
    assert sent["payment"].parent == sent["order"].parent == reaction.id
    assert (requested.parent, deferred.parent) == (sent["payment"].id, sent["order"].id)
    assert deferred.attributes["cqrs.due"].endswith("Z")
    traced = [span for span in collector.spans if not span.links]
    assert {span.trace for span in traced} == {TRACE_ID}

    topics = {name: Topics(name, prefix) for name in ("order", "payment")}
    spans = trace_spans(trace_messages(connection, topics, "c1", 0, print).messages, topics)
    assert sorted((span.name, f"{span.span_id:016x}", f"{span.parent_id:016x}") for span in spans) == sorted(
        (span.name, span.id, span.parent) for span in traced if span is not projected
    )
