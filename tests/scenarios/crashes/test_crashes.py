"""An owner may crash between any two steps of the protocol, and every crash is harmless."""

import signal
from functools import partial

import pytest

from cqrs_cli.errors import TakenOverError
from tests.support.commands import mixed_commands
from tests.support.failpoints import ALWAYS_PASSED
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan
from tests.support.sampling import sample_cases
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: For 600 commands, 50 in a transaction, 150 applied at once. The first transaction commits the claim.
IN_EACH_TRANSACTION = ("offsets.after", "flush.after", "commit.sent", "commit.after")
IN_EACH_BATCH = ("decide.before", "decide.after", "produce.first", "produce.after", *IN_EACH_TRANSACTION)
APPLYING = ("apply.before", "apply.inside", "apply.after")
FAILPOINTS = [
    *(f"{point}:1" for point in ALWAYS_PASSED if point not in (*IN_EACH_BATCH, *APPLYING)),
    *(f"{point}:1" for point in IN_EACH_TRANSACTION),
    *(f"{point}:5" for point in IN_EACH_BATCH),
    *(f"{point}:4" for point in APPLYING),
]


#: One failpoint for each kind of harm: fenced without a claim, a shard half folded, a batch half written, a commit
#: without a reply, Kafka ahead of LMDB.
ALWAYS_RUN = (
    "fence.after:1",
    "claim.after:1",
    "recover.events:1",
    "commit.sent:1",
    "produce.after:5",
    "commit.sent:5",
    "commit.after:5",
    "apply.inside:4",
    "shard.closing:1",
)


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("failpoint", sample_cases(FAILPOINTS, *ALWAYS_RUN))
def test_an_owner_killed_anywhere_harms_nothing(single_bank: TopicHarness, failpoint: str) -> None:
    """The owner gets SIGKILL between two steps of the protocol: the next owner decides each command once."""
    commands = list(mixed_commands(800))
    single_bank.send(*commands[:200])
    run_plan(single_bank.plan())
    single_bank.send(*commands[200:])
    assert OwnerProcess(single_bank.plan(), f"{failpoint}:kill", batch_limit=50, apply_every=150).was_killed()
    run_plan(single_bank.plan())
    single_bank.check()


def has_outcomes(bank: TopicHarness, count: int) -> bool:
    return bank.stable_end("outcomes") > count


@pytest.mark.covers("one-outcome")
def test_repeated_kills_repeat_no_command(
    bank: TopicHarness,
) -> None:
    bank.send(*mixed_commands(20_000, accounts=500))
    for count in (500, 2000, 4000, 6500):
        owner = OwnerProcess(bank.plan(once=False), batch_limit=200, apply_every=1000)
        eventually(partial(has_outcomes, bank, count))
        owner.signal(signal.SIGKILL)
        assert owner.was_killed()
    run_plan(bank.plan())
    bank.check()


@pytest.mark.covers("one-owner")
@pytest.mark.parametrize(
    "failpoint", ["position.after:1", "produce.after:4", "commit.sent:4", "apply.before:3"]
)
def test_an_owner_waking_late_harms_nothing(single_bank: TopicHarness, failpoint: str) -> None:
    commands = list(mixed_commands(800))
    single_bank.send(*commands[:200])
    run_plan(single_bank.plan())
    single_bank.send(*commands[200:700])
    paused_owner = OwnerProcess(single_bank.plan(), f"{failpoint}:stop", batch_limit=50, apply_every=150)
    eventually(paused_owner.is_paused)
    run_plan(single_bank.plan())
    single_bank.send(*commands[700:])
    run_plan(single_bank.plan())
    paused_owner.signal(signal.SIGCONT)
    assert isinstance(paused_owner.error(), TakenOverError)
    single_bank.check()


@pytest.mark.covers("one-owner")
def test_paused_owner_without_successor_continues(single_bank: TopicHarness) -> None:
    single_bank.send(*mixed_commands(300))
    paused_owner = OwnerProcess(single_bank.plan(), "produce.after:3:stop", batch_limit=50)
    eventually(paused_owner.is_paused)
    paused_owner.signal(signal.SIGCONT)
    assert paused_owner.error() is None
    single_bank.check()
