"""The plan of a run, made from settings and topics."""

from dataclasses import replace
from datetime import timedelta

import pytest

from cqrs_cli.deciding.prepare import prepare
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.kafka.connection.connection import Connection
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    "text",
    [
        "",
        "counter",
        "counter:0",
        "counter@0",
        "counter:x@0",
        "counter:0@-1",
        "counter:0@1.5",
        "counter:0@٣",
        ":0@1",
    ],
)
def test_malformed_position_is_refused(counters: TopicHarness, text: str) -> None:
    with pytest.raises(UsageError, match="not a position in a topic"):
        counters.plan(accept_loss=[text])


@pytest.mark.parametrize("text", ["order:0@1", "Counter:0@1"])
def test_position_of_foreign_aggregate_is_refused(counters: TopicHarness, text: str) -> None:
    with pytest.raises(UsageError, match="not among the aggregates of this run"):
        counters.plan(fail=[text])


def test_position_on_missing_partition_is_refused(counters: TopicHarness) -> None:
    with pytest.raises(UsageError, match="has no partition 1"):
        counters.plan(accept_loss=["counter:1@0"])
    with pytest.raises(UsageError, match="has no partition 2"):
        counters.plan(fail=["counter:0@0", "counter:2@0"])


def test_missing_offset_is_refused_before_fencing(counters: TopicHarness) -> None:
    counters.send(*increment_commands(2))
    with pytest.raises(UsageError, match="has no offset 3; name an offset from 0 to 2") as raised:
        counters.plan(accept_loss=["counter:0@3"])
    assert "from 0 to 2" in raised.value.hint
    with pytest.raises(UsageError, match="has no command at offset 2"):
        counters.plan(fail=["counter:0@0", "counter:0@2"])


def test_positions_are_grouped_by_partition(bank: TopicHarness) -> None:
    bank.send(*(command._replace(partition=n % 2) for n, command in enumerate(increment_commands(16))))
    plan = bank.plan(
        accept_loss=["bank_account:1@7"], fail=["bank_account:0@3", "bank_account:0@5", "bank_account:1@3"]
    )
    assert plan.accept_loss == {("bank_account", 1): 7}
    assert plan.force_failed == {("bank_account", 0): {3, 5}, ("bank_account", 1): {3}}


def test_once_ends_at_current_end(counters: TopicHarness) -> None:
    counters.send(*increment_commands(4))
    assert counters.plan().end_offsets == {("counter", 0): 4}
    assert counters.plan(once=False).end_offsets is None


def test_decide_timeout_is_in_the_plan(counters: TopicHarness) -> None:
    settings = counters.settings.model_copy(update={"decide_timeout": timedelta(minutes=2)})
    plan = prepare(settings, counters.connection, {"counter": counters.aggregate})
    assert plan.timing.decide_timeout == 120.0


def test_run_epochs_always_rise(counters: TopicHarness) -> None:
    """This machine's clock may be a day behind the clock of the previous run."""
    plan = counters.plan()
    first = replace(plan, run_epoch=plan.run_epoch + 86_400_000)
    run_plan(first)
    assert counters.plan().run_epoch > first.run_epoch


def test_missing_topics_are_a_configuration_error(connection: Connection, counters: TopicHarness) -> None:
    settings = counters.settings.model_copy(update={"topic_prefix": f"{counters.topics.prefix}missing."})
    with pytest.raises(ConfigurationError, match="do not exist") as raised:
        prepare(settings, connection, {"counter": counters.aggregate})
    assert "cqrs init" in raised.value.hint
