"""`cqrs erase` on topics of customers. The test decides the commands, as an owner would."""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import KINDS, MAX_MESSAGE_BYTES, TopicPlan, Topics
from tests.cli.conftest import Cqrs
from tests.core.personal.batches import context
from tests.core.personal.customer import CUSTOMER, Registered
from tests.following.projections.projector_harness import event_record
from tests.support.topic_settings import configure_topic
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

CUSTOMER_MODULE = "from tests.core.personal.customer import decide, decider, evolve\n"


class Customers:
    """Topics of customers with one partition, and a decider of all their commands in one batch."""

    def __init__(self, connection: Connection, prefix: str) -> None:
        self.connection, self.topics = connection, Topics("customer", prefix)
        with Admin(connection) as admin:
            ensure_topics(admin, self.topics, TopicPlan(partitions=1))

    def decide(self) -> None:
        """Write the decisions. May be called only once."""
        start, end = readers.bounds(self.connection, self.topics.commands, [0])[0]
        batches = readers.read(self.connection, self.topics.commands, 0, start, end)
        decisions = decide_batch(
            CUSTOMER, [record for batch in batches for record in batch], context(table=DeferralTable())
        )
        self.write(self.topics.events, *((value, key) for value, key, _ in decisions.events))
        self.write(self.topics.outcomes, *((value, key) for value, key, _ in decisions.outcomes))
        self.write(
            self.topics.dead_letters, *((letter.value, letter.key) for letter in decisions.dead_letters)
        )

    def write(self, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
        producer = clients.producer(self.connection)
        for value, key in records:
            producer.produce(topic, value, key, 0, headers=HEADERS)  # type: ignore[arg-type]
        assert producer.flush(30) == 0

    def command_count(self) -> int:
        return readers.bounds(self.connection, self.topics.commands, [0])[0][1]

    @contextmanager
    def decide_after(self, count: int) -> Iterator[None]:
        """Decide as soon as the topic has `count` commands."""

        def work() -> None:
            eventually(lambda: self.command_count() >= count)
            self.decide()

        thread = threading.Thread(target=work)
        thread.start()
        yield
        thread.join()


@pytest.fixture
def customers(connection: Connection, prefix: str) -> Customers:
    return Customers(connection, prefix)


@pytest.fixture
def erase_project(cqrs: Cqrs, customers: Customers, tmp_path: Path) -> Cqrs:
    """`cqrs` in a project with two registered customers. One of them has an event with unencrypted personal data."""
    (tmp_path / "aggregates").unlink()
    (tmp_path / "aggregates").mkdir()
    (tmp_path / "aggregates" / "customer.py").write_text(CUSTOMER_MODULE)
    broker_flags = ("-b", customers.connection.bootstrap_server, "--topic-prefix", customers.topics.prefix)

    def call(*arguments: str) -> object:
        return cqrs(*arguments, *broker_flags)

    call("send", "customer", "c-1", "Register", "name=Ann", "mail=ann@home")
    call("send", "customer", "c-1", "Order", "street=Elm", "street=7", "amount=3", "--not-before", "3d")
    call("send", "customer", "c-2", "Register", "name=Bob")
    plain_event = event_record(0, "c-1", 1, Registered("Ann", "ann@home", "free"), aggregate="customer")
    customers.write(customers.topics.events, (plain_event.value, plain_event.key))
    return call  # type: ignore[return-value]


def test_verbose_traceback_has_no_values(cqrs: Cqrs, erase_project: Cqrs) -> None:
    """The traceback of an unexpected error shows no values."""

    def fail(_: object) -> None:
        raise KeyError("Ann")

    result = cqrs("erase", "customer", "c-1", "--dry-run", "-v", connect=fail)
    assert result.err.endswith("error: KeyError\n")
    assert "in fail" in result.err and "KeyError: " not in result.err


def ledger_lines(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_erasing_prints_the_outcome(erase_project: Cqrs, customers: Customers, tmp_path: Path) -> None:
    with customers.decide_after(4):
        result = erase_project("erase", "customer", "c-1", "-o", "json")
    assert (result.status, result.document["type"]) == (0, "cqrs.Erase.accepted")
    assert "1 event from before the fields were personal: their plain text stays" in result.err
    request_line, key_line = ledger_lines(tmp_path / "erasures.ndjson")
    *_, erased = erase_project("tail", "customer", "events", "-o", "json").lines
    assert (key_line["aggregate"], key_line["id"]) == ("customer", "c-1")
    assert key_line["key"] == erased["message"]["data"]["key"]
    assert "key" not in request_line and request_line["command"] == key_line["command"]


def test_dry_run_counts_messages(erase_project: Cqrs, customers: Customers, tmp_path: Path) -> None:
    customers.decide()
    result = erase_project("erase", "customer", "c-1", "--dry-run", "-o", "json")
    assert result.document == {
        "aggregate": "customer",
        "id": "c-1",
        "events": 2,
        "plain_events": 1,
        "deferred": 0,
        "commands": 2,
        "dead_letters": 0,
    }
    result = erase_project("erase", "customer", "c-1", "--dry-run")
    assert "customer c-1: 2 events, whose personal fields become unreadable" in result.out
    assert customers.command_count() == 3
    assert not (tmp_path / "erasures.ndjson").exists()


def test_erasing_without_waiting(erase_project: Cqrs, customers: Customers, tmp_path: Path) -> None:
    ledger = tmp_path / "other.ndjson"
    result = erase_project("erase", "customer", "c-1", "--no-wait", "--erasures", str(ledger))
    assert (result.status, result.out[:23]) == (0, "sent cqrs.Erase to c-1 ")
    assert [line["id"] for line in ledger_lines(ledger)] == ["c-1"]


def test_erasure_without_outcome_is_recorded(erase_project: Cqrs, tmp_path: Path) -> None:
    """An owner may still decide the command after the call has given up."""
    assert erase_project("erase", "customer", "c-1", "--timeout", "10ms").status == 8
    assert [line["id"] for line in ledger_lines(tmp_path / "erasures.ndjson")] == ["c-1"]


def test_unreadable_events_do_not_prevent_erasing(
    erase_project: Cqrs, customers: Customers, tmp_path: Path
) -> None:
    """The erasure reports that its events cannot be read, and is recorded without its key."""
    events = customers.topics.events
    customers.write(events, (b"?", b"c-1"))
    with customers.decide_after(4):
        result = erase_project("erase", "customer", "c-1")
    assert result.status == 0
    assert "its events were not read: " in result.err and f"{events} partition 0 offset 1" in result.err
    (line,) = ledger_lines(tmp_path / "erasures.ndjson")
    assert line.keys() == {"aggregate", "id", "time", "command"}


def test_restored_backups_are_erased_again(erase_project: Cqrs, customers: Customers, tmp_path: Path) -> None:
    """The file names the erased data key: a later data key of the same person is kept."""
    erase_project("erase", "customer", "c-2", "--no-wait")
    file = tmp_path / "repeated.ndjson"
    file.write_text('{"aggregate":"customer","id":"c-1","key":"AAAAAAAAAAA"}\n')
    with customers.decide_after(5):
        result = erase_project("erase", "--file", str(file), "-o", "json")
    assert [(line["subject"], line["data"]["status"]) for line in result.lines] == [("c-1", "unchanged")]
    assert result.status == 0
    erasures_file = tmp_path / "events.ndjson"
    tail = erase_project("tail", "customer", "events", "--type", "cqrs.Erased", "-o", "json")
    assert tail.err == ""
    erasures_file.write_text(tail.out)
    repeated = erase_project("erase", "--file", str(erasures_file), "--no-wait", "-o", "json")
    assert (repeated.status, repeated.document["sent"], customers.command_count()) == (0, 1, 6)
    *_, command = erase_project("tail", "customer", "commands", "-o", "json").lines
    assert command["message"]["data"] == tail.lines[0]["message"]["data"]


def test_wrong_calls_send_nothing(
    cqrs: Cqrs, erase_project: Cqrs, customers: Customers, tmp_path: Path
) -> None:
    file = tmp_path / "erasures.ndjson"
    file.write_text('{"aggregate":"unknown","id":"c-1","key":"AAAAAAAAAAA"}\n')
    calls = {
        ("customer",): "AGGREGATE and ID are needed, or --file",
        ("customer", "c-1", "--file", str(file)): "--file names the erasures to repeat",
        ("--file", str(file)): "no aggregate 'unknown'",
        ("--file", "nothing"): "nothing cannot be read",
        ("customer", "c-1", "--erasures", "no/where"): "no/where cannot be written",
    }
    for call, message in calls.items():
        result = erase_project("erase", *call)
        assert (result.status in (2, 3), message in result.err) == (True, True), result.err
    assert customers.command_count() == 3


def test_new_keys_topic_is_reported(erase_project: Cqrs, customers: Customers) -> None:
    """`init` reports it, because a lost keys topic may have had the keys of the existing events."""
    plan, topics = TopicPlan(personal=True), customers.topics
    for kind in KINDS:
        configure_topic(customers.connection, topics.name(kind), plan.configs(kind, MAX_MESSAGE_BYTES, 1))
    result = erase_project("init", "customer")
    assert result.status == 0 and f"{topics.keys} was missing, and customer has events" in result.err
    assert "was missing" not in erase_project("init", "customer").err


@pytest.mark.program
@pytest.mark.parametrize("answer", ["n", "", "yess"])
def test_person_on_terminal_must_confirm(tmp_path: Path, answer: str) -> None:
    """The other tests of this file have no terminal, and are not asked."""
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").mkdir()
    (tmp_path / "aggregates" / "__init__.py").touch()
    (tmp_path / "aggregates" / "customer.py").write_text(CUSTOMER_MODULE)
    command = ["-m", "cqrs_cli", "erase", "customer", "c-42", "-b", "127.0.0.1:1"]
    child = pexpect.spawn(sys.executable, command, cwd=str(tmp_path), timeout=60, use_poll=True)
    child.expect_exact("erase the personal fields of customer c-42? This cannot be undone. [y/N] ")
    child.sendline(answer)
    child.expect_exact("error: not confirmed, nothing was erased")
    child.expect(pexpect.EOF)
    assert child.wait() == 1
    assert not (tmp_path / "erasures.ndjson").exists()
