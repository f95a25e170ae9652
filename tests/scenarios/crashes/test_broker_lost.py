"""The broker dies and comes back: the owner goes on by itself, and each command is decided once."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.brokers import Broker, broker
from tests.support.commands import mixture
from tests.support.harness import TopicHarness
from tests.support.owners import Process, quietly, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Not the broker of the other tests."""
    with broker(tmp_path_factory.mktemp("mortal")) as started:
        yield started


@pytest.fixture
def bank(mortal: Broker, prefix: str, tmp_path: Path) -> TopicHarness:
    """Bank accounts on one partition."""
    return TopicHarness(mortal.connection, prefix, tmp_path, "bank_account")


@pytest.mark.pins("one-outcome")
@pytest.mark.parametrize(
    "place",
    [
        pytest.param("claim.before:1", marks=pytest.mark.faults),
        pytest.param("position.after:1", marks=pytest.mark.faults),
        pytest.param("produce.first:4", marks=pytest.mark.faults),
        pytest.param("offsets.after:4", marks=pytest.mark.faults),
        pytest.param("flush.after:4", marks=pytest.mark.faults),
        "commit.sent:4",
        pytest.param("commit.after:4", marks=pytest.mark.faults),
    ],
)
def test_a_broker_killed_in_the_middle_of_a_transaction_costs_nothing(
    mortal: Broker, bank: TopicHarness, tmp_path: Path, place: str
) -> None:
    commands = list(mixture(800))
    bank.send(*commands[:200])
    quietly(bank.plan())
    bank.send(*commands[200:])
    there = tmp_path / "there"
    plan = bank.plan()
    owner = Process(plan, f"{place}:wait@{there}", most=50, apply_every=150)
    eventually(there.exists)
    mortal.kill()
    there.unlink()
    mortal.start()
    if owner.lost():  # confluentinc/librdkafka#5456: then the driver submits the task again
        quietly(replace(plan, submission=1))
    else:
        assert owner.error() is None
    bank.check()


@pytest.mark.pins("one-outcome")
def test_a_broker_killed_while_nothing_is_to_be_done_is_awaited(mortal: Broker, bank: TopicHarness) -> None:
    commands = list(mixture(400))
    bank.send(*commands[:200])
    with running(bank.plan(once=False)) as owner:
        eventually(lambda: len(bank.outcomes()) == 200)
        mortal.kill()
        mortal.start()
        bank.send(*commands[200:])
        eventually(lambda: len(bank.outcomes()) == 400, within=60)
        assert not owner.ended()
    bank.check()
