import asyncio
import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import cqrs_cli as cqrs
from aggregates.bank_account import Close, Deposit, Open
from aggregates.sensor import Record as Measure
from cqrs_cli import registry
from cqrs_cli.client import producer
from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.client.pending_outcome import PendingOutcome
from cqrs_cli.errors import ConfigurationError, CqrsError, NoOutcomeError, UnavailableError, UsageError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from tests.support import ROOT
from tests.support.brokers import broker
from tests.support.harness import TopicHarness
from tests.support.simple_owner import SimpleOwner
from tests.support.waiting import eventually


def decide_and_check(owner: SimpleOwner, command: PendingOutcome) -> bool:
    """Decide all commands. Return True if this command has its outcome."""
    owner.decide()
    return command.done()


def make_owner(connection: Connection, prefix: str) -> SimpleOwner:
    topics = Topics("bank_account", prefix)
    with Admin(connection) as admin:
        ensure_topics(admin, topics, TopicPlan(partitions=2))
    return SimpleOwner(connection, topics, registry.load("bank_account", "aggregates", ROOT))


@pytest.fixture
def client(connection: Connection, prefix: str) -> Iterator[cqrs.Client]:
    """A client of accounts. An owner decides their commands."""
    with (
        make_owner(connection, prefix).decide_in_background(),
        cqrs.Client(ROOT, bootstrap_server=connection.bootstrap_server, topic_prefix=prefix) as client,
    ):
        yield client


@pytest.mark.kafka
def test_outcomes_are_values(client: cqrs.Client) -> None:
    open_outcome = client.send("acc-42", Open("ann"), expect="none").wait()
    assert (open_outcome.ok, open_outcome.status, open_outcome.version, open_outcome.aggregate_id) == (
        True,
        "accepted",
        1,
        "acc-42",
    )
    conflict = client.send("acc-42", Deposit(100), expect=7).wait()
    assert (conflict.ok, conflict.reason, conflict.retryable) == (False, "VERSION_CONFLICT", True)
    rejected = client.send("acc-42", Deposit(-1)).wait()
    assert (rejected.status, rejected.reason, rejected.code) == ("rejected", "BUSINESS_RULE", "NOT_POSITIVE")


@pytest.mark.kafka
def test_repeated_ids_are_duplicates(client: cqrs.Client) -> None:
    first = client.send("acc-42", Open("ann"))
    assert first.wait().ok
    duplicate = client.send("acc-42", Open("ann"), id=first.id).wait()
    assert (duplicate.ok, duplicate.status, duplicate.command_id) == (True, "duplicate", first.id)
    assert duplicate.original is not None and duplicate.original.status == "accepted"


@pytest.mark.kafka
def test_recorded_offset_follows_the_events(client: cqrs.Client, connection: Connection, prefix: str) -> None:
    outcomes = [client.send("acc-42", command).wait() for command in (Open("ann"), Deposit(1))]
    partition, offset = client.recorded(outcomes[-1])
    (records,) = readers.read(connection, f"{prefix}bank_account.events", partition, 0, offset + 1)
    assert [json.loads(record.value or b"")["aggregateversion"] for record in records] == [1, 2]


@pytest.mark.kafka
def test_every_command_gets_its_outcome(client: cqrs.Client) -> None:
    commands = [client.send(f"acc-{number}", Open(str(number))) for number in range(200)]
    assert [command.wait().aggregate_id for command in commands] == [f"acc-{number}" for number in range(200)]


@pytest.mark.kafka
def test_outcomes_can_be_awaited(connection: Connection, prefix: str) -> None:
    async def program() -> list[CommandOutcome]:
        server = connection.bootstrap_server
        async with cqrs.Client(ROOT, bootstrap_server=server, topic_prefix=prefix) as client:
            open_outcome = await client.send("a", Open("ann"))
            return [open_outcome, *await asyncio.gather(*(client.send("a", Deposit(n)) for n in range(1, 5)))]

    with make_owner(connection, prefix).decide_in_background():
        outcomes = asyncio.run(program())
    assert [outcome.version for outcome in outcomes] == [1, 2, 3, 4, 5]


@pytest.mark.kafka
def test_missing_outcomes_name_the_id(connection: Connection, prefix: str) -> None:
    make_owner(connection, prefix)
    with cqrs.Client(ROOT, bootstrap_server=connection.bootstrap_server, topic_prefix=prefix) as client:
        command = client.send("acc-42", Close(), id="id-7", timeout=0.2)
        with pytest.raises(NoOutcomeError, match=r"no outcome of command id-7 within 0.2 s"):
            command.wait()

        async def program() -> None:
            await client.send("acc-42", Close(), id="id-8", timeout=0.2)

        with pytest.raises(NoOutcomeError, match=r"no outcome of command id-8 within 0.2 s"):
            asyncio.run(program())


@pytest.mark.kafka
def test_closing_waits_for_the_log(connection: Connection, prefix: str, tmp_path: Path) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "bank_account", 2)
    with cqrs.Client(ROOT, bootstrap_server=connection.bootstrap_server, topic_prefix=prefix) as client:
        commands = [client.send(f"acc-{n}", Open("ann"), expires=timedelta(hours=1)) for n in range(100)]
    documents = [json.loads(r.value or b"") for p in range(2) for r in harness.records("commands", p)]
    assert {document["id"] for document in documents} == {command.id for command in commands}
    assert {document["source"] for document in documents} == {"/cqrs/client"}
    assert all(document["expirytime"] > "2026" for document in documents)
    with pytest.raises(NoOutcomeError, match="the client was closed before"):
        commands[0].wait()
    with pytest.raises(UsageError, match="the client is closed"):
        client.send("acc-1", Close())


@pytest.mark.kafka
def test_missing_topics_are_errors(connection: Connection, prefix: str) -> None:
    client = cqrs.Client(ROOT, bootstrap_server=connection.bootstrap_server, topic_prefix=prefix)
    with pytest.raises(ConfigurationError, match="does not exist; create it: cqrs init"):
        client.send("acc-42", Close()).wait()


@pytest.mark.kafka
@pytest.mark.slow
def test_lost_broker_gets_the_command_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka gives up the command, so the client sends it again with its id. It is decided once."""
    monkeypatch.setitem(producer._SINGLE_CONFIG, "delivery_timeout_ms", 1000)
    with broker(tmp_path) as kafka:
        account_owner = make_owner(kafka.connection, "")
        client = cqrs.Client(ROOT, bootstrap_server=kafka.connection.bootstrap_server, timeout=120)
        with client:
            first = client.send("acc-42", Open("ann"))
            eventually(lambda: decide_and_check(account_owner, first))
            kafka.kill()
            second = client.send("acc-42", Deposit(100))
            eventually(lambda: second.failure)
            kafka.start()
            eventually(lambda: decide_and_check(account_owner, second))
            assert (second.wait().ok, second.wait().command_id) == (True, second.id)
        account: Any = account_owner.states["acc-42"].state
        assert account.balance == 100


def test_unreachable_brokers_are_errors() -> None:
    client = cqrs.Client(ROOT, bootstrap_server="127.0.0.1:1")
    with pytest.raises(UnavailableError, match=r"127.0.0.1:1"):
        client.send("acc-42", Close()).wait()
    with pytest.raises(UnavailableError, match="closed with 1 command not in the log"):
        client.close()


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        ("Deposit", {}, "not a command: 'Deposit'"),
        (Deposit("x"), {}, "bank_account.Deposit: Expected `int`, got `str`"),  # type: ignore[arg-type]
        (Measure(float("nan")), {}, "sensor.Record: Record.value is a number that is not finite"),
        (Deposit(1), {"expect": "07"}, "^expect: not an expected version"),
        (Deposit(1), {"expect": True}, "^expect: not an expected version"),
        (Deposit(1), {"id": ""}, "^id has 0 bytes"),
        (Deposit(1), {"correlation_id": "x" * 2000}, "^correlation_id has 2000 bytes"),
        (Deposit(1), {"traceparent": "00-1"}, "^traceparent: '00-1' is not a W3C traceparent"),
        (Deposit(1), {"aggregate": "counter"}, "is not a command of the aggregate 'counter'"),
        (Deposit(1), {"aggregate": "bank"}, "no aggregate 'bank'"),
        (cqrs.Command(), {}, "Command is not a command of any aggregate in"),
    ],
)
def test_wrong_calls_are_refused(command: Any, options: dict[str, Any], message: str) -> None:
    client = cqrs.Client(ROOT, bootstrap_server="127.0.0.1:1")
    with pytest.raises(UsageError, match=message):
        client.send("acc-42", command, **options)


def test_shared_commands_need_an_aggregate(tmp_path: Path) -> None:
    source = (ROOT / "aggregates/counter.py").read_text()
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/one.py").write_text(source)
    (tmp_path / "shared/two.py").write_text("from shared.one import *\nfrom shared.one import decider\n")
    (tmp_path / "cqrs.toml").write_text('aggregates = "shared"\n')
    client = cqrs.Client(tmp_path, bootstrap_server="127.0.0.1:1")
    increment = registry.load("one", "shared", tmp_path).commands["one.Increment"]()
    assert client._aggregates.of_command(increment, "two")[1] == "two.Increment"
    with pytest.raises(CqrsError, match="is a command of one, two; name the aggregate: aggregate="):
        type(increment).__module__ = "elsewhere"
        client.send("a", increment)
    del sys.modules["shared"]
