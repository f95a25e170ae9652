"""Commands over HTTP are decided as usual, and answered with their outcomes."""

from contextlib import closing
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.following.gateway.commands import read_attributes
from cqrs_cli.following.gateway.gateway import GatewayLimits
from cqrs_cli.following.gateway.responses import outcome_status
from cqrs_cli.following.gateway.token import Access
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from tests.following.gateway.conftest import GatewayClient, running_gateway


@pytest.mark.kafka
def test_command_is_answered_by_outcome(gateway: GatewayClient) -> None:
    name = gateway.open_account()
    response = gateway.post(name, "Withdraw", {"amount": 30}, If_Match='"2"', Idempotency_Key=f"w-{name}")
    assert (response.status, response.headers["etag"]) == (200, '"3"')
    assert (response.body["status"], response.body["command_id"]) == ("accepted", f"w-{name}")
    repeated = gateway.post(name, "Withdraw", {"amount": 30}, If_Match='"2"', Idempotency_Key=f"w-{name}")
    assert (repeated.status, repeated.body["status"]) == (200, "duplicate")
    assert gateway.get(f"/bank_account/{name}?at_least=3&wait=20s").body["state"]["balance"] == 70


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_headers_are_utf_8_or_latin_1(encoding: str) -> None:
    attributes = {"idempotency-key": "für-Zoë", "correlation-id": "Zürich-7", "tracestate": "a=é"}
    headers = Headers(raw=[(name.encode(), text.encode(encoding)) for name, text in attributes.items()])
    read_back = read_attributes(headers)
    assert (read_back.id, read_back.correlation, read_back.tracestate) == tuple(attributes.values())


@pytest.mark.kafka
def test_refusals_have_their_status(gateway: GatewayClient) -> None:
    name = gateway.open_account()
    conflict = gateway.post(name, "Deposit", {"amount": 1}, If_Match='"7"')
    assert (conflict.status, conflict.body["reason"]) == (409, "VERSION_CONFLICT")
    assert conflict.body["outcome"]["version"] == 2
    rejected = gateway.post(name, "Withdraw", {"amount": 1000})
    assert (rejected.status, rejected.body["reason"], rejected.body["outcome"]["status"]) == (
        422,
        "BUSINESS_RULE",
        "rejected",
    )
    exists = gateway.post(name, "Open", {"owner": "bob"}, If_None_Match="*")
    assert (exists.status, exists.body["reason"]) == (409, "ALREADY_EXISTS")
    reused = gateway.post(name, "Deposit", {"amount": 1}, Idempotency_Key=f"r-{name}")
    other = gateway.post(name, "Deposit", {"amount": 2}, Idempotency_Key=f"r-{name}")
    assert (reused.status, other.status, other.body["reason"]) == (200, 422, "ID_REUSED")


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("command", "body", "headers", "status"),
    [
        ("Fly", {}, {}, 404),
        ("Deposit", {}, {}, 400),
        ("Deposit", {"amount": "many"}, {}, 400),
        ("Deposit", b"{", {}, 400),
        ("Deposit", b"[" * 100_000, {}, 400),
        ("Deposit", b'{"amount":1}', {"Content_Type": "text/plain"}, 415),
        ("Deposit", {"amount": 1}, {"If_Match": "7"}, 400),
        ("Deposit", {"amount": 1}, {"If_None_Match": '"7"'}, 400),
        ("Deposit", {"amount": 1}, {"If_Match": "*", "If_None_Match": "*"}, 400),
        ("Deposit", {"amount": 1}, {"traceparent": "1"}, 400),
        ("Deposit", {"amount": 1}, {"Idempotency_Key": "x" * 3000}, 400),
        ("Deposit", {"amount": 1}, {"Prefer": "wait=soon"}, 400),
        ("Deposit", b'{"amount":' + b" " * 1_100_000 + b"1}", {}, 413),
    ],
)
def test_bad_commands_are_not_sent(
    gateway: GatewayClient, command: str, body: object, headers: dict[str, str], status: int
) -> None:
    response = gateway.post("nobody", command, body, **headers)
    assert (response.status, response.body["status"]) == (status, status)
    assert gateway.get("/bank_account/nobody").status == 404


@pytest.mark.kafka
def test_no_outcome_in_time(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """No owner decides here."""
    topics = Topics("bank_account", prefix)
    with Admin(connection) as admin:
        ensure_topics(admin, topics, TopicPlan(partitions=1))
    with running_gateway(connection, topics, tmp_path) as lonely:
        response = lonely.post("acc", "Open", {"owner": "ann"}, Prefer="respond-async, wait=0")
        assert (response.status, response.body["title"]) == (504, "no outcome in time")
        assert response.body["id"]


@pytest.mark.kafka
def test_read_only_takes_no_commands(connection: Connection, accounts: Topics, tmp_path: Path) -> None:
    with running_gateway(connection, accounts, tmp_path, read_only=True) as gateway:
        assert gateway.post("acc", "Open", {"owner": "ann"}).status == 405
        paths = gateway.get("/openapi.json").body["paths"]
        assert not any("post" in methods for methods in paths.values())


@pytest.mark.kafka
def test_token_guards_all_but_the_page(connection: Connection, accounts: Topics, tmp_path: Path) -> None:
    with running_gateway(connection, accounts, tmp_path, tokens={"0123456789abcdef": Access()}) as gateway:
        right_token, wrong_token = "Bearer 0123456789abcdef", "Bearer 0123456789abcdeX"
        assert gateway.get("/bank_account", Authorization=right_token).status == 200
        for refused in (
            gateway.get("/bank_account"),
            gateway.get("/bank_account", Authorization=wrong_token),
        ):
            assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Bearer realm="cqrs"')
        assert gateway.post("acc", "Open", {"owner": "ann"}).status == 401
        assert gateway.get("/", Accept="application/json").status == 401
        assert (gateway.get("/").status, gateway.get("/healthz").status) == (200, 200)


@pytest.mark.kafka
def test_other_hosts_are_refused(gateway: GatewayClient) -> None:
    """A page of another site whose host name resolves to the gateway gets no data."""
    assert gateway.get("/bank_account", Host="evil.example:80").status == 421
    assert gateway.post("acc", "Open", {"owner": "ann"}, Host="evil.example").status == 421


@pytest.mark.kafka
def test_slow_bodies_are_given_up(connection: Connection, accounts: Topics, tmp_path: Path) -> None:
    limits = GatewayLimits(body_timeout=0.1)
    with (
        running_gateway(connection, accounts, tmp_path, limits) as gateway,
        closing(gateway.connect()) as slow,
    ):
        slow.putrequest("POST", "/bank_account/acc/Open")
        slow.putheader("Content-Type", "application/json")
        slow.putheader("Content-Length", "20")
        slow.endheaders(b"{")
        with slow.getresponse() as answer:
            assert answer.status == 408


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name)
def test_each_reason_has_its_status(reason: Reason) -> None:
    outcome = CommandOutcome(False, reason.status, "c", "a", "x", 1, 0, 0, 0, reason=reason.name)
    statuses = {"failed": (400, 413, 500, 503), "rejected": (409, 422), "deferred": (202,)}
    assert outcome_status(outcome) in statuses[reason.status]
