"""Ids are repeated at the edge of the dedup window and when the broker's clock jumps: a rebuild changes no answer."""

import shutil
import time
from dataclasses import replace

import pytest

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.topics.topics import ANY_DIFFERENCE, Kind
from tests.support.commands import CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error

pytestmark = pytest.mark.kafka

HOUR = 3_600_000  # ms
DEDUP_WINDOW = 24 * HOUR


def increment(id: str) -> CommandRecord:
    return command("counter.Increment", "a", id)


#: Id, time by the broker's clock (ms since the first command), and expected status. The clock of the dedup window is
#: the greatest time so far.
STEPS = [
    ("x", 0, "accepted"),
    ("x", 1, "duplicate"),
    ("x", DEDUP_WINDOW, "duplicate"),  # the last moment
    ("y", DEDUP_WINDOW, "accepted"),
    ("x", DEDUP_WINDOW + 1, "accepted"),
    ("x", DEDUP_WINDOW + 2, "duplicate"),
    ("y", 0, "duplicate"),  # the clock was set back
    ("z", 1, "accepted"),  # stamped more than a window before the greatest time,
    ("z", 2, "accepted"),  # so its id is forgotten at once
    ("y", 2 * DEDUP_WINDOW, "duplicate"),
    ("y", 2 * DEDUP_WINDOW + 1, "accepted"),
    ("w", 4 * DEDUP_WINDOW, "accepted"),  # the clock jumped ahead by more than two windows,
    ("x", DEDUP_WINDOW + 3, "accepted"),  # and back
    ("w", 0, "duplicate"),
]


@pytest.fixture
def plan(counters: TopicHarness) -> Plan:
    """A plan, made while the broker stamps the commands. From now on the test stamps them."""
    plan = counters.plan()
    counters.configure("commands", "message.timestamp.type", "CreateTime")
    return plan


@pytest.mark.covers("decided-once")
@pytest.mark.parametrize("runs", ["in one run", "in a run each", "in a run each, the shard lost before it"])
def test_a_repeated_id_repeats_its_outcome(counters: TopicHarness, plan: Plan, runs: str) -> None:
    """Repeated ids have the expected status at the window's edge, after a rebuild, and when the clock jumps."""
    first_timestamp = time.time_ns() // 1_000_000 - 6 * DEDUP_WINDOW
    client, topic = producer(counters.connection), counters.topics.commands

    def run_until_now(number: int) -> None:
        end_offsets = {Partition("counter", 0): counters.stable_end("commands")}
        run_plan(replace(plan, run_epoch=plan.run_epoch + number, end_offsets=end_offsets))

    for number, (id, delay, _) in enumerate(STEPS):
        record = increment(id)
        client.produce(
            topic, record.value, record.key, 0, timestamp=first_timestamp + delay, headers=[*HEADERS]
        )
        assert client.flush(10) == 0
        if runs != "in one run":
            run_until_now(number)
        if runs.endswith("before it"):
            shutil.rmtree(counters.shard_path())
    run_until_now(len(STEPS))
    assert [outcome.data.status for outcome in counters.outcomes()] == [status for *_, status in STEPS]
    counters.configure("commands", "message.timestamp.type", "LogAppendTime")
    counters.check()


def send_ahead_of_clock(counters: TopicHarness, ahead: int) -> Plan:
    """Return a plan with a command stamped `ahead` ms after now, as after a jump of the broker's clock."""
    plan = counters.plan()
    counters.configure("commands", "message.timestamp.type", "CreateTime")
    counters.configure("commands", "message.timestamp.after.max.ms", str(ANY_DIFFERENCE))
    client, record = producer(counters.connection), increment("x")
    timestamp = time.time_ns() // 1_000_000 + ahead
    client.produce(
        counters.topics.commands, record.value, record.key, 0, timestamp=timestamp, headers=[*HEADERS]
    )
    assert client.flush(10) == 0
    counters.configure("commands", "message.timestamp.type", "LogAppendTime")
    return replace(plan, end_offsets={Partition("counter", 0): counters.stable_end("commands")})


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("hours", [2, 24 * 365 * 10])
def test_leapt_clock_leaves_command_decidable(counters: TopicHarness, hours: int) -> None:
    run_plan(send_ahead_of_clock(counters, hours * HOUR))
    assert [outcome.data.status for outcome in counters.outcomes()] == ["accepted"]
    counters.check()


@pytest.mark.parametrize("kind", ["events", "outcomes"])
def test_refused_time_names_its_setting(counters: TopicHarness, kind: Kind) -> None:
    """The topic was changed during a run. `--fail` would fail as well, so the hint names the setting."""
    plan = send_ahead_of_clock(counters, 2 * HOUR)
    counters.configure(kind, "message.timestamp.after.max.ms", str(HOUR))
    error = run_plan_for_error(plan)
    assert isinstance(error, ConfigurationError)
    assert "offset 0 cannot be decided" in error.message
    assert error.hint == "cqrs doctor names the topic and how to set its message.timestamp.after.max.ms"
    with pytest.raises(ConfigurationError, match=f"{kind} has message.timestamp.after.max.ms=3600000"):
        counters.plan(fail=["counter:0@0"])
    counters.configure(kind, "message.timestamp.after.max.ms", str(ANY_DIFFERENCE))
    run_plan(counters.plan())
    assert [outcome.data.status for outcome in counters.outcomes()] == ["accepted"]
