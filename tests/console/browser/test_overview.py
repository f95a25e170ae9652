"""The overview in a real browser, and the events that it merges."""

import json
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.console.browser.conftest import ConsoleTab
from tests.console.polls import Polls
from tests.following.gateway.conftest import GatewayClient
from tests.support.statuses import decided_partition, subscribed_partition

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_overview_follows_the_partitions(gateway: GatewayClient, console: ConsoleTab) -> None:
    """The stream is lost after an event, and open again before the missed points arrive."""
    first: dict[str, Any] = gateway.get("/api/overview").body
    body = f"event: overview\ndata: {json.dumps(first)}\n\n"
    recent: list[Route] = []

    def lose_first(route: Route) -> None:
        if route.request.headers["accept"] != "text/event-stream":
            route.continue_()
        elif recent:
            route.fallback()
        else:
            route.fulfill(body=body, content_type="text/event-stream")

    def hold_second(route: Route) -> None:
        recent.append(route)
        if len(recent) == 1:
            route.continue_()

    console.page.route("**/api/overview*", lose_first)
    console.page.route("**/api/recent*", hold_second)
    page = console.open("overview")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="bank_account"))
    accepted = row.get_by_role("cell").nth(1)
    expect(accepted).to_be_visible()
    before = int(accepted.inner_text())
    gateway.open_account()
    expect(accepted).to_have_text(str(before + 2))
    point = {"time_ms": first["time_ms"] + 1, "series": {"bank_account": {"lag": 777, "decided": 1}}}
    recent[1].fulfill(json={"points": [point]})
    expect(
        page.get_by_role("img", name="Lag: commands that wait: bank_account 0, at most 777")
    ).to_be_visible()


def test_changed_partition_arrives(gateway: GatewayClient, console: ConsoleTab) -> None:
    """The event after the first has only the partition that has changed."""
    first: dict[str, Any] = gateway.get("/api/overview").body
    bank = first["status"]["aggregates"]["bank_account"]
    changed = {**bank["partitions"][1], "lag": 777, "oldest": first["time"]}
    status = {**first["status"], "aggregates": {"bank_account": {**bank, "partitions": [changed]}}}
    changes = {"time_ms": first["time_ms"] + 61_000, "status": status, "silent_runs": {}}
    body = f"event: overview\ndata: {json.dumps(first)}\n\nevent: changes\ndata: {json.dumps(changes)}\n\n"
    streams: list[Route] = []

    def answer_first(route: Route) -> None:
        if route.request.headers["accept"] != "text/event-stream":
            route.continue_()
            return
        streams.append(route)
        if len(streams) == 1:
            route.fulfill(body=body, content_type="text/event-stream")

    console.page.route("**/api/overview*", answer_first)
    page = console.open("overview")
    unchanged, row = (
        page.get_by_role("group", name="Partitions of bank_account").get_by_role("row").nth(n) for n in (1, 2)
    )
    expect(row).to_contain_text("777")
    expect(row).to_contain_text("61 s")
    expect(unchanged.get_by_role("cell").nth(2)).to_have_text("0")
    expect(page.get_by_role("heading", name="Outcomes")).to_be_visible()


def test_earlier_gateway_is_followed(gateway: GatewayClient, console: ConsoleTab) -> None:
    """During an upgrade, a gateway without `changes` and `silent_runs` may answer."""
    overview: dict[str, Any] = gateway.get("/api/overview").body
    del overview["silent_runs"]
    overview["status"]["aggregates"]["bank_account"]["standbys"] = ["later"]
    body = f"event: overview\ndata: {json.dumps(overview)}\n\n"

    def answer(route: Route) -> None:
        if route.request.headers["accept"] != "text/event-stream":
            route.continue_()
        elif route.request.url.endswith("?changes=true"):
            route.fulfill(status=400, json={"title": "unknown parameter"})
        else:
            route.fulfill(body=body, content_type="text/event-stream")

    console.page.route("**/api/overview*", answer)
    page = console.open("overview")
    expect(page.get_by_text("standby later")).to_be_visible()


def test_merged_changes_are_the_overview(console: ConsoleTab) -> None:
    polls, partitions = Polls(), [decided_partition(number) for number in range(3)]
    page = console.open("model")
    page.evaluate("async () => { Object.assign(window, await import('./assets/overview_changes.js')) }")
    merged: Any = None
    for lag in (0, 1, 0, 0, 5):
        partitions[lag % 3] = decided_partition(lag % 3, lag=lag)
        name, event = polls.read(*partitions, subscribed_partition(lag=lag))
        merged = (
            event
            if name == "overview"
            else page.evaluate("([old, changes]) => mergeOverview(old, changes)", [merged, event])
        )
        assert merged == json.loads(polls.encoder.document()), lag
