"""The console's documents, over a gateway on the real broker."""

from pathlib import Path

import pytest

from cqrs_cli.console.overview import problems_of
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.console.subscriptions import projections_document
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.gateway.openapi import describe_api
from cqrs_cli.following.projections.database import parse_database
from tests.console.conftest import ConsoleClient
from tests.support.statuses import status_snapshot

pytestmark = pytest.mark.kafka


def test_overview_has_status_and_remedy(console: ConsoleClient) -> None:
    overview = console.get("overview")
    bank = overview["status"]["aggregates"]["bank_account"]
    assert (bank["lag"], len(bank["partitions"])) == (1, 2)
    assert overview["outcomes"]["bank_account"]["rejected"] == 1
    (problem,) = overview["problems"]
    assert problem["text"] == "1 command waiting in 1 partition without an owner"
    assert problem["command"] == "cqrs run bank_account"


def test_overview_follows_each_poll(console: ConsoleClient) -> None:
    """An event after a missed poll, and after a first rate, contains more. Both happen on a busy machine."""
    first, *later = console.events("overview?changes=true", 4)
    changes = [event.data for event in later if event.name == "changes"]
    assert first.name == "overview" and changes[-1]["time_ms"] > first.data["time_ms"]
    assert [] in [data["status"]["aggregates"]["bank_account"]["partitions"] for data in changes]
    points = console.get(f"recent?since_ms={first.data['time_ms']}")["points"]
    assert points[-1]["series"]["bank_account"]["lag"] == 1


def test_overview_is_whole_by_default(console: ConsoleClient) -> None:
    _, second = console.events("overview", 2)
    assert second.name == "overview"
    assert len(second.data["status"]["aggregates"]["bank_account"]["partitions"]) == 2


def test_search_finds_ids_and_texts(console: ConsoleClient) -> None:
    ids, *_, end = console.events("search?q=acc-")
    assert (ids.name, ids.data) == ("aggregate", {"aggregate": "bank_account", "id": "acc-1", "version": 1})
    assert (end.name, end.data["limited"], end.data["error"]) == ("end", False, None)
    records = [event.data for event in console.events("search?q=Lovelace") if event.name == "record"]
    assert sorted((record["kind"], record["id"][:6]) for record in records) == [
        ("commands", "open-1"),
        ("events", records[[record["kind"] for record in records].index("events")]["id"][:6]),
    ]


def test_search_finds_correlations(console: ConsoleClient) -> None:
    records = [event.data for event in console.events("search?q=flow-1") if event.name == "record"]
    assert sorted(record["kind"] for record in records) == [
        "commands",
        "commands",
        "events",
        "outcomes",
        "outcomes",
    ]


def test_search_stops_at_the_limit(console: ConsoleClient) -> None:
    events = console.events("search?q=flow-1&limit=2")
    assert [event.name for event in events].count("record") == 2
    assert events[-1].data["limited"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("overview?changes=maybe", 400),
        ("search", 400),
        ("search?q=a&limit=0", 400),
        ("search?q=a&since=soon", 400),
        ("search?q=a&aggregate=nothing", 404),
        ("trace?id=nothing", 404),
        ("dead-letters?aggregate=bank_account&reason=NONE", 400),
        ("nothing", 404),
    ],
)
def test_wrong_requests_are_problems(console: ConsoleClient, path: str, status: int) -> None:
    response = console.gateway.get(f"/api/{path}")
    assert (response.status, response.headers["content-type"]) == (status, "application/problem+json")


def test_trace_shows_a_correlation(console: ConsoleClient) -> None:
    document = console.get("trace?id=flow-1")
    opened, withdrawn = document["commands"]
    assert [event["type"] for event in opened["events"]] == ["bank_account.Opened"]
    assert (withdrawn["outcome"]["status"], withdrawn["outcome"]["code"]) == (
        "rejected",
        "OVERDRAWN",
    )


def test_commands_include_rejected_and_waiting(console: ConsoleClient) -> None:
    document = console.get("commands?aggregate=bank_account&id=acc-1")
    statuses = [(node["id"], node["outcome"] and node["outcome"]["status"]) for node in document["commands"]]
    assert statuses == [
        ("waiting-1", None),
        ("later-1", "deferred"),
        ("fly-1", "failed"),
        ("withdraw-1", "rejected"),
        ("open-1", "accepted"),
    ]
    assert (document["waiting"], [entry["id"] for entry in document["deferred"]]) == (1, ["later-1"])


def test_dead_letters_are_counted(console: ConsoleClient) -> None:
    document = console.get("dead-letters?aggregate=bank_account&open=true&limit=1")
    assert (document["count"], document["limited"], len(document["dead_letters"])) == (2, True, 1)
    (letter,) = console.get("dead-letters?aggregate=bank_account&id=fly-1")["dead_letters"]
    assert (letter["reason"], letter["data"]) == ("UNKNOWN_TYPE", {})


def test_deferred_commands_are_listed(console: ConsoleClient) -> None:
    (entry,) = console.get("deferred?aggregate=bank_account&aggregate_id=acc-1")["deferred"]
    assert (entry["state"], entry["command"]["data"]) == ("parked", {"amount": 7})


def test_model_is_json_schema(console: ConsoleClient) -> None:
    assert "bank_account.Open" in console.get("model")["aggregates"]["bank_account"]["commands"]
    session = console.get("session")["aggregates"]["bank_account"]
    assert session == {
        "aggregates": 1,
        "partitions": 2,
        "commands": ["Open", "Deposit", "Withdraw", "Close"],
        "ready": True,
        "personal": False,
    }


def test_description_has_every_path(console: ConsoleClient) -> None:
    paths = console.gateway.get("/openapi.json").body["paths"]
    served = [path for path, item in paths.items() if path.startswith("/api/") and "get" in item]
    for path in served:
        assert console.gateway.get(path).status in (200, 400), path
    assert len(served) > 9
    assert "/api/overview" not in describe_api([console.harness.aggregate], False, False)["paths"]


def test_projections_need_a_database(console: ConsoleClient, tmp_path: Path) -> None:
    assert console.get("projections") == {"database": None, "error": None, "projections": {}}
    database = parse_database("sqlite:///none.db", tmp_path, "--projections")
    harness = console.harness
    document = projections_document(
        ConsoleProject(harness.settings, harness.connection, {}, database=database)
    )
    assert document["database"].endswith("none.db")
    assert "no projection has a position" in document["error"]


def test_missing_topics_are_problems() -> None:
    error = ConfigurationError("topic order.commands does not exist", "create it: cqrs init order")
    (problem,) = problems_of(status_snapshot()._replace(missing={"order": error}))
    assert problem == ("order", "topic order.commands does not exist; create it", "cqrs init order")
