"""An operator's actions in the console: a preview, then the action, if the token has the right."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from cqrs_cli.following.gateway.token import Access
from tests.console.browser.conftest import ConsoleTab, log_in
from tests.console.conftest import running_console
from tests.following.gateway.conftest import GatewayClient
from tests.support.commands import FAR_FUTURE, command
from tests.support.harness import TopicHarness
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def await_count(gateway: GatewayClient, path: str, count: int) -> None:
    """Wait until a list of the console has this count."""
    eventually(lambda: gateway.get(f"/api/{path}").body["count"] == count)


def test_dead_letter_is_retried(accounts: TopicHarness, gateway: GatewayClient, console: ConsoleTab) -> None:
    letters = "dead-letters?aggregate=bank_account&aggregate_id=acc-9"
    accounts.send(command("bank_account.Fly", "acc-9", "fly-9"))
    await_count(gateway, letters, 1)
    page = console.open("dead-letters", "bank_account", aggregate_id="acc-9")
    page.get_by_role("button", name="Retry …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 open dead letter will be sent again as new commands.")
    console.check_accessibility()
    console.picture("retry")
    dialog.get_by_role("button", name="Retry").click()
    expect(dialog).to_contain_text("1 command sent.")
    dialog.get_by_role("button", name="Close").click()
    await_count(gateway, letters, 2)


def test_changed_selection_stops_an_action(
    accounts: TopicHarness, gateway: GatewayClient, console: ConsoleTab
) -> None:
    waiting = "deferred?aggregate=bank_account&aggregate_id=acc-8"
    for number in (1, 2):
        accounts.send(
            command("bank_account.Open", "acc-8", f"o{number}", {"owner": "x"}, notbefore=FAR_FUTURE)
        )
        await_count(gateway, waiting, number)
        if number == 1:
            page = console.open("deferred", "bank_account", aggregate_id="acc-8")
            page.get_by_role("button", name="Cancel …").first.click()
            dialog = page.get_by_role("dialog")
            expect(dialog).to_contain_text("1 command will never be decided.")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_contain_text("The selection has changed since the preview. Nothing was done.")
    dialog.get_by_role("button", name="Preview again").click()
    expect(dialog).to_contain_text("2 commands will never be decided.")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_contain_text("2 requests sent.")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_text("No such command waits.")).to_be_visible()


def test_released_command_is_decided(
    accounts: TopicHarness, gateway: GatewayClient, console: ConsoleTab
) -> None:
    accounts.send(command("bank_account.Open", "acc-7", "o7", {"owner": "x"}, notbefore=FAR_FUTURE))
    await_count(gateway, "deferred?aggregate=bank_account&aggregate_id=acc-7", 1)
    page = console.open("deferred", "bank_account", aggregate_id="acc-7")
    page.get_by_role("button", name="Release …").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 command will be decided now instead of when due.")
    console.picture("release")
    dialog.get_by_role("button", name="Release").click()
    expect(dialog).to_contain_text("1 request sent.")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_text("No such command waits.")).to_be_visible()


def test_actions_need_their_rights(
    accounts: TopicHarness, tmp_path: Path, open_console: Callable[..., ConsoleTab]
) -> None:
    rights = {"reader": {"read"}, "sender": {"read", "send"}, "operator": {"read", "operate"}}
    tokens = {f"a-token-of-a-{name}": Access(frozenset(own), name) for name, own in rights.items()}
    with running_console(accounts, tmp_path, tokens=tokens) as client:
        page = open_console(client.gateway.port).open("dead-letters", "bank_account")
        for name, own_rights in rights.items():
            log_in(page, f"a-token-of-a-{name}")
            expect(page.get_by_text("UNKNOWN_TYPE").first).to_be_visible()
            expect(page.get_by_role("button", name="Drop old letters …")).to_have_count(
                int("operate" in own_rights)
            )
            page.get_by_role("link", name="Send", exact=True).click()
            expect(page.get_by_role("button", name="Dry run")).to_have_count(int("send" in own_rights))
            page.go_back()
            page.get_by_role("button", name="Forget token").click()
        page.close()


def test_dropped_letters_are_gone(gateway: GatewayClient, console: ConsoleTab) -> None:
    """The last test, because it drops all dead letters. The console drops only letters older than a month, and no
    letter is so old. So the test changes the console's request to all letters.
    """
    letters = gateway.get("/api/dead-letters?aggregate=bank_account").body["count"]
    body = {"aggregate": "bank_account", "before": "0s"}

    def drop_all(route: Route) -> None:
        sent = json.loads(route.request.post_data or "")
        assert sent.pop("before") == "30d"
        route.continue_(post_data=json.dumps(sent | body))

    console.page.route("**/api/dead-letters/drop*", drop_all)
    page = console.open("dead-letters", "bank_account", open="false")
    page.get_by_role("button", name="Drop old letters …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{letters} dead letters will be deleted from the topic, for ever.")
    dialog.get_by_role("button", name="Drop old letters").click()
    expect(dialog).to_contain_text(f"{letters} dead letters dropped.")
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_text("There is no such dead letter.")).to_be_visible()
    records = console.open("search", q="first_command").get_by_role("region", name="Records")
    expect(records.get_by_text(re.compile(r"^\d+ dead letters? dropped$")).first).to_be_visible()
    links = [link.get_attribute("href") for link in records.get_by_role("link").all()]
    assert set(links) == {"#/dead-letters/bank_account"}
    expect(records).not_to_contain_text("undefined")
