"""The console's actions: each with a preview, only with the right, and recorded with the name of its token."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from cqrs_cli.following.gateway.token import Access
from cqrs_cli.kafka.connection.connection import Connection
from tests.console.conftest import ConsoleClient, running_console
from tests.support.commands import CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan

pytestmark = pytest.mark.kafka

OPERATOR, SENDER = "token-of-ann-who-operates", "token-that-only-sends"
TOKENS = {
    OPERATOR: Access(frozenset({"read", "send", "operate"}), "ann"),
    SENDER: Access(frozenset({"read", "send"}), "bob"),
}


@pytest.fixture(scope="module")
def module_console(
    connection: Connection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleClient]:
    """A console over two dead letters, an unreadable one, and two deferred commands."""
    folder = tmp_path_factory.mktemp("console")
    harness = TopicHarness(connection, f"t{uuid.uuid4().hex[:8]}.", folder, "bank_account", partitions=1)
    harness.send(
        command("bank_account.Open", "acc-1", "open-1", {"owner": "Ada"}),
        command("bank_account.Fly", "acc-1", "fly-1", correlationid="flow-1"),
        command("bank_account.Fly", "acc-2", "fly-2"),
        CommandRecord(b"?", b"x"),
        command("bank_account.Deposit", "acc-1", "later-1", {"amount": 7}, notbefore="2999-01-01T00:00:00Z"),
        command("bank_account.Deposit", "acc-2", "later-2", {"amount": 7}, notbefore="2999-01-01T00:00:00Z"),
    )
    run_plan(harness.plan())
    with running_console(harness, folder / "gateway", tokens=TOKENS) as client:
        yield client


@pytest.fixture
def console(module_console: ConsoleClient) -> ConsoleClient:
    """The console, which Ann uses. The tests that change something come last."""
    module_console.gateway.token = OPERATOR
    return module_console


def act(console: ConsoleClient, path: str, **body: Any) -> tuple[int, Any]:
    response = console.gateway.request("POST", f"/api/{path}", {"aggregate": "bank_account", **body})
    return response.status, response.body


def sent_commands(console: ConsoleClient) -> list[dict[str, Any]]:
    """Return the commands that were sent after the first six."""
    return [json.loads(record.value or b"") for record in console.harness.records("commands")[6:]]


def test_preview_changes_nothing(console: ConsoleClient) -> None:
    status, preview = act(console, "dead-letters/retry?dry_run=true", all=True)
    assert (status, preview["count"], preview["unreadable"]) == (200, 2, 1)
    assert [letter["id"] for letter in preview["dead_letters"]] == ["fly-1", "fly-2"]
    status, preview = act(console, "dead-letters/drop?dry_run=true", before="0s")
    assert (status, preview["count"]) == (200, 3)
    status, preview = act(console, "deferred/cancel?dry_run=true", id="later-1")
    assert (status, [entry["id"] for entry in preview["deferred"]]) == (200, ["later-1"])
    assert sent_commands(console) == [] and len(console.harness.records("dead-letters")) == 3


@pytest.mark.parametrize(
    ("path", "previewed", "changed"),
    [
        ("dead-letters/retry", {"id": "fly-1"}, {"id": "fly-2"}),
        ("deferred/release", {"id": "later-1"}, {"id": "later-2"}),
        ("deferred/cancel", {"id": "later-1"}, {"id": "later-2"}),
        ("dead-letters/drop", {"before": "0s"}, {"before": "7d"}),
    ],
)
def test_changed_selection_is_a_conflict(
    console: ConsoleClient, path: str, previewed: Any, changed: Any
) -> None:
    """Except for a drop, the changed selection has the same count."""
    _, preview = act(console, f"{path}?dry_run=true", **previewed)
    status, problem = act(console, path, **changed, selection=preview["selection"])
    assert (status, problem["title"]) == (409, "the selection has changed")
    assert sent_commands(console) == [] and len(console.harness.records("dead-letters")) == 3


def preview_digest(console: ConsoleClient, path: str, **body: Any) -> str:
    _, preview = act(console, f"{path}?dry_run=true", **body)
    digest: str = preview["selection"]
    return digest


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("dead-letters/retry", {}, 400),
        ("dead-letters/retry", {"reasons": ["NONE"]}, 400),
        ("dead-letters/retry", {"reason": "LATER", "all": True}, 400),
        ("dead-letters/drop", {"id": "fly-1", "before": "0s"}, 400),
        ("deferred/cancel", {"wrong": 1}, 400),
        ("deferred/cancel", {"aggregate": "nothing", "all": True}, 404),
        ("deferred/nothing", {"all": True}, 404),
    ],
)
def test_wrong_actions_are_problems(console: ConsoleClient, path: str, body: Any, status: int) -> None:
    assert act(console, path, **body)[0] == status
    assert sent_commands(console) == []


def test_actions_accept_only_json(console: ConsoleClient) -> None:
    body = b'{"aggregate": "bank_account", "all": true}'
    response = console.gateway.request("POST", "/api/dead-letters/retry", body, Content_Type="text/plain")
    assert response.status == 415


def test_dry_run_shows_events_and_state(console: ConsoleClient) -> None:
    response = console.gateway.post("acc-1", "Deposit?dry_run=true", {"amount": 3})
    assert (response.status, response.body["outcome"]["status"]) == (200, "accepted")
    assert [event["data"] for event in response.body["events"]] == [{"amount": 3}]
    assert (response.body["state"]["balance"], response.body["version"]) == (3, 2)
    response = console.gateway.post("acc-1", "Withdraw?dry_run=true", {"amount": 3})
    assert (response.body["outcome"]["code"], response.body["state"]["balance"]) == ("OVERDRAWN", 0)
    assert sent_commands(console) == []


def test_actions_need_their_right(console: ConsoleClient) -> None:
    console.gateway.token = SENDER
    status, problem = act(console, "dead-letters/retry", all=True)
    assert (status, problem["title"]) == (403, "no right to operate")
    response = console.gateway.post("acc-1", "Deposit", {"amount": 1}, Prefer="wait=1")
    (sent,) = sent_commands(console)
    assert (response.status, sent["actor"], "action" in sent) == (504, "bob", False)


def test_retry_is_recorded_and_traced(console: ConsoleClient) -> None:
    selection = preview_digest(console, "dead-letters/retry", id="fly-1")
    result = act(console, "dead-letters/retry", id="fly-1", selection=selection)
    assert result == (200, {"sent": 1, "unreadable": 0})
    sent = sent_commands(console)[-1]
    assert (sent["id"], sent["actor"], sent["action"]) == ("fly-1", "ann", "retry")
    run_plan(console.harness.plan())
    nodes = console.get("trace?id=flow-1")["commands"]
    assert [(node.get("actor"), node["outcome"]["status"]) for node in nodes] == [
        (None, "failed"),
        ("ann", "failed"),
    ]


def test_requests_about_deferred_are_recorded(console: ConsoleClient) -> None:
    selection = preview_digest(console, "deferred/cancel", aggregate_id="acc-1")
    assert act(console, "deferred/cancel", aggregate_id="acc-1", selection=selection) == (200, {"sent": 1})
    run_plan(console.harness.plan())
    nodes = console.get("commands?aggregate=bank_account&id=acc-1")["commands"]
    (request,) = [node for node in nodes if node["type"] == "cqrs.Cancel"]
    assert (request["actor"], request["action"], request["outcome"]["status"]) == (
        "ann",
        "cancel",
        "unchanged",
    )
    entries = console.get("deferred?aggregate=bank_account&aggregate_id=acc-1")["deferred"]
    assert all(entry["cancelled"] for entry in entries)


def test_drop_deletes_and_is_traced(console: ConsoleClient) -> None:
    _, preview = act(console, "dead-letters/drop?dry_run=true", before="0s")
    count, selection = preview["count"], preview["selection"]
    assert act(console, "dead-letters/drop", before="0s", selection=selection) == (200, {"dropped": count})
    assert console.get("dead-letters?aggregate=bank_account")["count"] == 0
    for path in ("trace?id=flow-1", "commands?aggregate=bank_account&id=acc-1"):
        nodes = [node for node in console.get(path)["commands"] if node["type"] == "bank_account.Fly"]
        assert {(node["dropped"]["actor"], node["dropped"]["dead_letters"]) for node in nodes} == {
            ("ann", count)
        }


def test_later_drop_keeps_earlier_records(console: ConsoleClient) -> None:
    (earlier,) = console.harness.records("dead-letters")
    console.harness.send(command("bank_account.Fly", "acc-1", "fly-3", correlationid="flow-3"))
    run_plan(console.harness.plan())
    _, preview = act(console, "dead-letters/retry?dry_run=true", all=True)
    assert (preview["count"], preview["unreadable"]) == (1, 0)
    selection = preview_digest(console, "dead-letters/drop", before="0s")
    assert act(console, "dead-letters/drop", before="0s", selection=selection) == (200, {"dropped": 1})
    kept, own = console.harness.records("dead-letters")
    assert (kept.value, kept.timestamp) == (earlier.value, earlier.timestamp)
    assert json.loads(own.value or b"")["letters"] == 1
    assert console.harness.violations() == []
