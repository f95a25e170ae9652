import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli import registry
from cqrs_cli.client.outcomes import OutcomeWaiter, ReceivedOutcome
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import partition_for
from cqrs_cli.kafka.topics.topics import Topics
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES
from tests.support.harness import TopicHarness
from tests.support.owners import running_owners
from tests.support.simple_owner import SimpleOwner
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka
BANK_ACCOUNT = registry.load("bank_account", "aggregates", AGGREGATES.parent)


@pytest.fixture
def owner(cqrs_on_broker: Cqrs, connection: Connection, prefix: str) -> SimpleOwner:
    return SimpleOwner(connection, Topics("bank_account", prefix), BANK_ACCOUNT)


def command_line(subject: str, command: str = "Open", **data: object) -> str:
    return json.dumps({"type": f"bank_account.{command}", "subject": subject, "data": data}) + "\n"


def test_commands_go_to_their_partition(cqrs_on_broker: Cqrs, connection: Connection, prefix: str) -> None:
    document = cqrs_on_broker(
        "send", "bank_account", "acc-42", "Deposit", "amount=100", "-o", "json"
    ).document
    assert uuid.UUID(document["id"]).version == 7
    assert document["partition"] == partition_for("murmur2", b"acc-42", 2)
    assert (document["aggregate"], document["subject"], document["type"]) == (
        "bank_account",
        "acc-42",
        "bank_account.Deposit",
    )
    ((record,),) = readers.read(
        connection, f"{prefix}bank_account.commands", document["partition"], document["offset"], 1
    )
    assert (record.key, record.headers) == (b"acc-42", [("content-type", b"application/cloudevents+json")])
    assert json.loads(record.value or b"")["id"] == document["id"]


def test_missing_topics_suggest_init(cqrs: Cqrs, connection: Connection, prefix: str) -> None:
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    result = cqrs("send", "counter", "c", "Increment", *broker_flags)
    assert result.status == 3
    reason = f"topic {prefix}counter.commands does not exist"
    assert result.err == f"error: {reason}; create it: cqrs init {' '.join(broker_flags)}\n"


def test_an_unreachable_broker_ends_with_4(cqrs: Cqrs) -> None:
    result = cqrs("send", "counter", "c", "Increment", "-b", "127.0.0.1:1")
    assert result.status == 4
    assert result.err.startswith("error: no answer from Kafka at 127.0.0.1:1")


def test_waiting_prints_the_outcome(cqrs_on_broker: Cqrs, owner: SimpleOwner) -> None:
    with owner.decide_in_background():
        result = cqrs_on_broker("send", "bank_account", "a", "Open", "owner=Ada", "--wait", "-o", "json")
    assert result.status == 0
    assert result.document["data"]["status"] == "accepted"
    assert result.document["subject"] == "a"


def test_rejections_end_with_7(cqrs_on_broker: Cqrs, owner: SimpleOwner) -> None:
    deposit = ("send", "bank_account", "a", "Deposit", "amount=1", "--wait", "--id")
    with owner.decide_in_background():
        rejected = cqrs_on_broker(*deposit, "1")
        rejected_again = cqrs_on_broker(*deposit, "1")
        cqrs_on_broker("send", "bank_account", "a", "Open", "owner=Ada", "--wait")
        accepted = cqrs_on_broker(*deposit, "2")
        accepted_again = cqrs_on_broker(*deposit, "2")
    assert [s.status for s in (rejected, rejected_again, accepted, accepted_again)] == [7, 7, 0, 0]
    assert [s.out.count("NOT_OPEN") for s in (rejected, rejected_again)] == [1, 0]
    assert rejected.err.startswith("error: the command was not accepted; see its state: cqrs show ")
    assert rejected.err.endswith(" bank_account a\n")
    assert accepted_again.out.startswith("duplicate")


def test_missing_outcomes_end_with_8(cqrs_on_broker: Cqrs) -> None:
    send_and_wait = ("send", "bank_account", "a", "Open", "owner=Ada", "--wait", "--timeout", "100ms")
    result = cqrs_on_broker(*send_and_wait)
    assert (result.status, result.out) == (8, "")
    id_option = re.search(r"sending again with the same id is safe: (--id [0-9a-f-]{36})$", result.err)
    assert id_option is not None
    error = json.loads(cqrs_on_broker(*send_and_wait, *id_option[1].split(), "-o", "json").err)["error"]
    assert error["without_outcome"] == [id_option[1].removeprefix("--id ")]
    records = cqrs_on_broker("tail", "bank_account", "commands", "-o", "json").lines
    assert [record["message"]["id"] for record in records] == error["without_outcome"] * 2


def test_an_expiry_can_be_a_time(cqrs_on_broker: Cqrs) -> None:
    cqrs_on_broker("send", "bank_account", "a", "Close", "--expires", "2999-01-01T00:00:00+01:00")
    (record,) = cqrs_on_broker("tail", "bank_account", "commands", "-o", "json").lines
    assert record["message"]["expirytime"] == "2998-12-31T23:00:00.000Z"


def test_waiting_reports_a_missing_owner(
    cqrs: Cqrs, cqrs_on_broker: Cqrs, connection: Connection, prefix: str
) -> None:
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    result = cqrs("send", "bank_account", "acc-42", "Close", "--wait", "--timeout", "2s", *broker_flags)
    partition = partition_for("murmur2", b"acc-42", 2)
    start = f"unless a run is starting, start one: cqrs run {' '.join(broker_flags)}"
    assert f"no run owns bank_account, partition {partition}; {start}; still waiting\n" in result.err
    assert f"it may still be decided: {start}; sending again" in result.err


def test_waiting_does_not_report_an_active_owner(single_bank: TopicHarness, cqrs: Cqrs) -> None:
    with running_owners(single_bank.plan(once=False)):
        eventually(single_bank.owning_run)  # it has claimed; after its end there would be no owner
    broker_flags = (
        "-b",
        single_bank.connection.bootstrap_server,
        "--topic-prefix",
        single_bank.topics.prefix,
    )
    send = ("send", "bank_account", "a", "Close", "--wait", "--timeout", "2s", *broker_flags)
    assert "no run owns" in cqrs(*send).err
    with running_owners(single_bank.plan(once=False)) as owner:
        eventually(lambda: single_bank.owning_run() == owner.plan.run)
        assert "no run owns" not in cqrs(*send).err


def test_json_names_all_missing_outcomes(cqrs_on_broker: Cqrs, tmp_path: Path) -> None:
    (tmp_path / "many.ndjson").write_text("".join(command_line(f"a{n}", owner="x") for n in range(5)))
    send_and_wait = ("send", "--file", "many.ndjson", "--wait", "--timeout", "100ms")
    assert cqrs_on_broker(*send_and_wait).err.rstrip().endswith(" and 2 more (-o json lists all)")
    result = cqrs_on_broker(*send_and_wait, "-o", "json")
    records = cqrs_on_broker("tail", "bank_account", "commands", "-o", "json").lines
    ids_without_outcome = json.loads(result.err)["error"]["without_outcome"]
    assert (result.status, len(ids_without_outcome)) == (8, 5)
    assert set(ids_without_outcome) < {record["message"]["id"] for record in records}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UnavailableError("no broker", "start one")])
def test_stopping_the_wait_names_the_id(
    cqrs: Cqrs,
    cqrs_on_broker: Cqrs,
    connection: Connection,
    prefix: str,
    error: BaseException,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def remaining_outcomes(self: OutcomeWaiter, timeout: float) -> Iterator[list[ReceivedOutcome]]:
        raise error

    monkeypatch.setattr(OutcomeWaiter, "remaining_outcomes", remaining_outcomes)
    broker_flags = ("-b", connection.bootstrap_server, "--topic-prefix", prefix)
    result = cqrs("send", "bank_account", "a", "Close", "--wait", "--id", "id-7", *broker_flags)
    assert "sending again with the same id is safe: --id id-7\n" in result.err


def test_other_commands_outcomes_are_ignored(cqrs_on_broker: Cqrs, owner: SimpleOwner) -> None:
    cqrs_on_broker("send", "bank_account", "a", "Open", "owner=Ada")
    with owner.decide_in_background():
        result = cqrs_on_broker("send", "bank_account", "a", "Close", "--wait", "-o", "json")
    assert result.document["type"] == "bank_account.Close.accepted"


def test_a_file_is_sent_and_counted(cqrs_on_broker: Cqrs, tmp_path: Path) -> None:
    (tmp_path / "many.ndjson").write_text("".join(command_line(f"a{n}", owner="x") for n in range(3000)))
    document = cqrs_on_broker("send", "--file", "many.ndjson", "-o", "json").document
    assert (document["sent"], document["aggregates"]) == (3000, {"bank_account": 3000})


def test_one_command_is_counted_singular(cqrs_on_broker: Cqrs, tmp_path: Path) -> None:
    (tmp_path / "one.ndjson").write_text(command_line("a", owner="x"))
    assert cqrs_on_broker("send", "--file", "one.ndjson").out.startswith("sent 1 command in ")


def test_outcomes_of_a_file_are_awaited(cqrs_on_broker: Cqrs, owner: SimpleOwner, tmp_path: Path) -> None:
    (tmp_path / "many.ndjson").write_text(
        "".join(command_line(f"a{n}", owner="x") for n in range(3000)) + command_line("b", "Close")
    )
    with owner.decide_in_background():
        result = cqrs_on_broker("send", "--file", "many.ndjson", "--wait", "-o", "json")
    assert result.status == 7
    assert len(result.lines) == 3001
    assert sum(outcome["data"]["status"] == "accepted" for outcome in result.lines) == 3000


def test_bad_lines_end_with_2(cqrs_on_broker: Cqrs, tmp_path: Path) -> None:
    (tmp_path / "bad.ndjson").write_text(command_line("a", owner="x") + "{}\n" + command_line("b", owner="x"))
    result = cqrs_on_broker("send", "--file", "bad.ndjson")
    assert result.status == 2
    assert result.err.startswith("error: line 2: ")
    assert "1 command was sent before it" in result.err
    assert len(cqrs_on_broker("tail", "bank_account", "commands", "-o", "json").lines) == 1


def test_lines_before_bad_ones_are_awaited(cqrs_on_broker: Cqrs, owner: SimpleOwner, tmp_path: Path) -> None:
    (tmp_path / "bad.ndjson").write_text(command_line("a", owner="x") + "{}\n")
    with owner.decide_in_background():
        result = cqrs_on_broker("send", "--file", "bad.ndjson", "--wait", "-o", "json")
    assert (result.status, result.document["data"]["status"]) == (2, "accepted")
    assert json.loads(result.err)["error"]["message"].startswith("line 2: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "AGGREGATE, ID and COMMAND are needed, or --file"),
        (
            ["bank_account", "a"],
            "COMMAND is missing; bank_account has Open, Deposit, Withdraw, Close; see cqrs",
        ),
        (["bank_account", "a", "Open", "--file", "-"], "--file names the commands to send"),
        (["--file", "nowhere"], "nowhere cannot be read"),
        (["bank_account", "a", "Opne"], "no command 'Opne'"),
        (
            ["bank_account", "a", "Close", "--expires", "30"],
            "--expires: not a time: '30' (like 2026-11-21T01:02:03Z, 2026-11-21, or 10m for in ten minutes); write",
        ),
        (["bank_account", "a", "Close", "--expires", "2026-01-01"], "--expires: '2026-01-01' is in the past"),
        (["bank_account", "a", "Close", "--wait", "--timeout", "x"], "--timeout: not a duration"),
    ],
)
def test_a_wrong_call_ends_with_2(cqrs: Cqrs, arguments: list[str], message: str) -> None:
    result = cqrs("send", *arguments)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
