"""Every arrow of the protocol is a crash point, and every crash is harmless."""

import signal
from functools import partial
from pathlib import Path

import pytest

from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.connection import Connection
from tests.commands import mixture
from tests.domain import Domain
from tests.owners import Fault, Process, quietly
from tests.waiting import eventually

pytestmark = pytest.mark.kafka

TENURE, WRITER = "cqrs_cli.jobs.tenure:Tenure", "cqrs_cli.kafka.writer:FencedWriter"
STORE, SHARD = "cqrs_cli.state.lmdb_store:LmdbStore", "cqrs_cli.state.shard"

#: In the order of the protocol. With 600 commands, 50 in a transaction, 150 applied at once.
DEATHS = [
    Fault(f"{SHARD}.write_mark", "before"),
    Fault(f"{TENURE}.fence", "before"),
    Fault(f"{TENURE}.fence", "after"),
    Fault(f"{TENURE}.claim", "after"),
    Fault(f"{TENURE}.position", "before"),
    Fault(f"{TENURE}.position", "after"),
    Fault(f"{STORE}.take", "after"),
    Fault(f"{TENURE}.recover", "after"),
    Fault(f"{WRITER}._finish", "before", 5),  # produced, not committed
    Fault(f"{WRITER}._finish", "after", 5),  # committed, not taken in
    Fault(f"{STORE}.apply", "before", 4),
    Fault(f"{STORE}.apply", "after", 4),
    Fault(f"{STORE}.close", "before"),
    Fault(f"{SHARD}.write_mark", "before", 2),
]


@pytest.fixture
def bank(connection: Connection, prefix: str, tmp_path: Path) -> Domain:
    """Bank accounts on one partition."""
    return Domain(connection, prefix, tmp_path, "bank_account")


@pytest.mark.parametrize("fault", DEATHS, ids=lambda f: f"{f.when} {f.place.rpartition(':')[2]} {f.nth}")
def test_an_owner_killed_anywhere_harms_nothing(bank: Domain, fault: Fault) -> None:
    commands = list(mixture(800))
    bank.send(*commands[:200])
    quietly(bank.plan())
    bank.send(*commands[200:])
    assert Process(bank.plan(), fault, most=50, apply_every=150).killed()
    quietly(bank.plan())
    bank.check()


def is_beyond(bank: Domain, goal: int) -> bool:
    return bank.end("outcomes") > goal


def test_an_owner_killed_again_and_again_decides_each_of_20000_commands_once(
    connection: Connection, prefix: str, tmp_path: Path
) -> None:
    bank = Domain(connection, prefix, tmp_path, "bank_account", partitions=2)
    bank.send(*mixture(20_000, accounts=500))
    for goal in (500, 2000, 4000, 6500):
        owner = Process(bank.plan(), most=200, apply_every=1000)
        eventually(partial(is_beyond, bank, goal))
        owner.signal(signal.SIGKILL)
        assert owner.killed()
    quietly(bank.plan())
    bank.check()


@pytest.mark.parametrize(
    ("place", "nth"), [(f"{WRITER}._finish", 4), (f"{STORE}.apply", 3), (f"{TENURE}.recover", 1)]
)
def test_an_owner_that_wakes_up_after_its_successor_harms_nothing(bank: Domain, place: str, nth: int) -> None:
    commands = list(mixture(800))
    bank.send(*commands[:200])
    quietly(bank.plan())
    bank.send(*commands[200:700])
    sleeper = Process(bank.plan(), Fault(place, "before", nth, signal.SIGSTOP), most=50, apply_every=150)
    eventually(sleeper.stopped)
    quietly(bank.plan())
    bank.send(*commands[700:])
    quietly(bank.plan())
    sleeper.signal(signal.SIGCONT)
    assert isinstance(sleeper.error(), TakenOverError)
    bank.check()


def test_an_owner_that_wakes_up_without_a_successor_goes_on(bank: Domain) -> None:
    bank.send(*mixture(300))
    sleeper = Process(bank.plan(), Fault(f"{WRITER}._finish", "before", 3, signal.SIGSTOP), most=50)
    eventually(sleeper.stopped)
    sleeper.signal(signal.SIGCONT)
    assert sleeper.error() is None
    bank.check()
