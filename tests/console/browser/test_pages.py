"""Each page of the console in a real browser, on a gateway with a real broker."""

import re
import uuid
from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from cqrs_cli.console.overview import partition_details
from cqrs_cli.status.partition import PartitionOwner
from tests.console.browser.conftest import ConsoleTab
from tests.following.gateway.conftest import GatewayClient
from tests.support.harness import TopicHarness
from tests.support.owners import running_owners
from tests.support.statuses import subscribed_partition

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_ids_lead_to_an_aggregate(console: ConsoleTab) -> None:
    page = console.open("browse")
    console.picture("browse")
    page.get_by_role("link", name="bank_account").click()
    page.get_by_label("Ids that begin with").fill("acc-1")
    console.picture("ids")
    page.get_by_role("link", name="acc-1").click()
    expect(page).to_have_title("bank_account acc-1 · cqrs")
    page.go_back()
    expect(page.get_by_role("link", name="acc-1")).to_be_visible()


def test_aggregate_shows_its_past(console: ConsoleTab) -> None:
    page = console.open("aggregate", "bank_account", "acc-1")
    state = page.get_by_role("region", name="State")
    expect(state).to_contain_text("balance0 → 100")
    expect(page.get_by_role("region", name="Commands")).to_contain_text("UNKNOWN_TYPE")
    console.picture("aggregate")
    page.get_by_label("Previous version").click()
    expect(page).to_have_url(f"{console.root}#/aggregate/bank_account/acc-1?version=1")
    expect(state).to_contain_text("balance0")
    page.get_by_label("Version", exact=True).press("ArrowRight")
    expect(page.get_by_text("version 2 of 2")).to_be_visible()


def test_new_events_appear_by_themselves(gateway: GatewayClient, console: ConsoleTab) -> None:
    name = gateway.open_account()
    page = console.open("aggregate", "bank_account", name)
    expect(page.get_by_text("version 2 of 2")).to_be_visible()
    gateway.post(name, "Deposit", {"amount": 7})
    expect(page.get_by_text("version 3 of 3")).to_be_visible()
    page.get_by_label("by time").check()
    page.get_by_label("Time", exact=True).press("Home")
    expect(page.get_by_text("version 1 of 3")).to_be_visible()


def test_event_between_history_and_stream_appears(gateway: GatewayClient, console: ConsoleTab) -> None:
    name = gateway.open_account()

    def deposit_before(route: Route) -> None:
        if route.request.headers["accept"] == "text/event-stream":
            gateway.post(name, "Deposit", {"amount": 7})
            assert gateway.get(f"/bank_account/{name}?at_least=3&wait=20s").status == 200
        route.continue_()

    console.page.route(f"**/bank_account/{name}", deposit_before)
    page = console.open("aggregate", "bank_account", name)
    expect(page.get_by_text("version 3 of 3")).to_be_visible()


def test_new_account_appears_with_its_commands(gateway: GatewayClient, console: ConsoleTab) -> None:
    name = f"acc-{uuid.uuid4().hex[:8]}"
    page = console.open("aggregate", "bank_account", name)
    expect(page.get_by_text("This aggregate has no event yet.")).to_be_visible()
    gateway.post(name, "Open", {"owner": "ann"})
    expect(page.get_by_text("version 1 of 1")).to_be_visible()
    gateway.post(name, "Withdraw", {"amount": 7})
    expect(page.get_by_role("region", name="Commands")).to_contain_text("OVERDRAWN")


def test_command_is_sent_after_a_dry_run(gateway: GatewayClient, console: ConsoleTab) -> None:
    name = gateway.open_account()
    page = console.open("send", "bank_account", name, command="Withdraw")
    result, send = page.get_by_role("region", name="Result"), page.get_by_role("button", name="Send Withdraw")
    page.get_by_label("amount").fill("130")
    page.get_by_role("button", name="Dry run").click()
    expect(result).to_contain_text("would be rejected")
    page.get_by_label("amount").fill("30")
    expect(send).to_be_hidden()
    page.get_by_label("Expected version").select_option("exactly version …")
    expect(page.get_by_label("Version", exact=True)).to_have_value("2")
    gateway.post(name, "Deposit", {"amount": 7})
    expect(page.get_by_text("now at version 3")).to_be_visible()
    page.get_by_role("button", name="Dry run").click()
    expect(result).to_contain_text("would be rejected VERSION_CONFLICT")
    page.get_by_label("Version", exact=True).fill("3")
    page.get_by_role("button", name="Dry run").click()
    expect(result).to_contain_text("balance77 was 107")
    page.get_by_label("Id", exact=True).fill("acc-1")
    expect(send).to_be_hidden()
    page.get_by_label("Id", exact=True).fill(name)
    page.get_by_role("button", name="Dry run").click()
    console.check_accessibility()
    console.picture("send")
    send.click()
    expect(result).to_contain_text("accepted version 4")
    page.get_by_role("link", name="Show the aggregate").click()
    expect(page.get_by_text("version 4 of 4")).to_be_visible()


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (("processes",), "The project has no process manager."),
        (("projections",), "cqrs serve --projections URL"),
        (("model",), "Deposited"),
        *(
            pytest.param(*parameters, marks=pytest.mark.nightly)  # other tests open these pages
            for parameters in (
                (("overview",), "Nothing needs an operator now."),
                (("search",), "Id, command, correlation or text in data"),
                (("browse",), "bank_account"),
                (("browse", "bank_account"), "acc-1"),
                (("aggregate", "bank_account", "acc-1"), "UNKNOWN_TYPE"),
                (("trace",), "Id of a correlation, command or event"),
                (("dead-letters",), "UNKNOWN_TYPE"),
                (("deferred",), "parked"),
                (("send", "bank_account", "acc-1"), "now at version 2"),
            )
        ),
    ],
)
def test_page_is_accessible(console: ConsoleTab, address: tuple[str, ...], text: str) -> None:
    page = console.open(*address)
    expect(page.get_by_text(text).first).to_be_visible()
    console.check_accessibility()
    console.picture("-".join(address))
    page.emulate_media(color_scheme="dark")
    console.check_accessibility("color-contrast")
    console.picture("-".join((*address, "dark")))


def test_silent_process_manager_is_marked(console: ConsoleTab) -> None:
    silent = subscribed_partition(owner=PartitionOwner("run-7", since=1_000, silent_seconds=56))
    process = {"sources": ["order"], "stopped": False, "partitions": [partition_details(silent)]}
    document = {"processes": {"checkout": process}, "missing": []}
    console.page.route("**/api/processes", lambda route: route.fulfill(json=document))
    page = console.open("processes")
    expect(page.get_by_role("cell", name="run-7")).to_have_text("run-7 silent for 56 s")


def test_search_finds_texts_in_data(console: ConsoleTab) -> None:
    page = console.open("overview")
    page.get_by_label("Search ids, commands and data").fill("Lovelace")
    page.keyboard.press("Enter")
    records = page.get_by_role("region", name="Records")
    expect(records.get_by_text("Ada Lovelace")).to_have_count(2)
    console.picture("search")
    records.get_by_role("link", name="trace").first.click()
    expect(page).to_have_title("Trace flow-1 · cqrs")


#: Leaves the overview while a plot waits for the frame in which it takes the size of its box.
LEAVE_BEFORE_RESIZE = """
const requestFrame = window.requestAnimationFrame;
window.requestAnimationFrame = (call) => {
  if (call.name === "resize") document.querySelector('nav a[href*="model"]').click();
  return requestFrame(call);
};
"""


def test_overview_can_be_left_before_plots_resize(console: ConsoleTab) -> None:
    """Any error on the page fails the test at its end."""
    console.page.add_init_script(LEAVE_BEFORE_RESIZE)
    page = console.open("overview")
    expect(page).to_have_title(re.compile("^Model"))


def test_lost_search_can_be_repeated(gateway: GatewayClient, console: ConsoleTab) -> None:
    name = f"acc-{uuid.uuid4().hex[:8]}"
    console.page.route(
        "**/api/search*",
        lambda route: route.fulfill(body=": \n\n", content_type="text/event-stream"),
        times=1,
    )
    page = console.open("search", q=name)
    search = page.get_by_role("button", name="Search")
    expect(page.get_by_role("alert")).to_contain_text("the gateway does not answer")
    search.click()
    expect(page.get_by_text("Nothing found.")).to_be_visible()
    gateway.post(name, "Open", {"owner": "ann"})
    search.click()
    expect(page.get_by_role("region", name="Records").get_by_role("link", name=name)).to_have_count(3)


def test_trace_draws_a_graph(console: ConsoleTab) -> None:
    page = console.open("trace", id="flow-1")
    graph = page.get_by_role("group", name="Commands and their causes")
    expect(graph.get_by_role("link")).to_have_count(4)
    console.check_accessibility()
    console.picture("trace")
    graph.get_by_role("link", name="Withdraw rejected").click()
    expect(page).to_have_title("bank_account acc-2 · cqrs")


def test_related_aggregates_are_found(console: ConsoleTab) -> None:
    page = console.open("aggregate", "bank_account", "acc-1")
    page.get_by_role("button", name="Search by correlation").click()
    expect(page.get_by_role("link", name="bank_account acc-2")).to_be_visible()


def test_narrow_screen_needs_no_sideways_scrolling(
    gateway: GatewayClient, open_console: Callable[..., ConsoleTab]
) -> None:
    console = open_console(gateway.port, viewport={"width": 360, "height": 700})
    page = console.open("aggregate", "bank_account", "acc-1")
    expect(page.get_by_text("version 2 of 2")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    console.picture("narrow")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Send", exact=True).click()
    expect(page.get_by_role("heading", name="Send a command")).to_be_visible()


def test_keys_lead_through_the_pages(console: ConsoleTab) -> None:
    page = console.open("browse")
    expect(page.get_by_role("heading", name="Aggregates")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page).to_have_title("Send a command · cqrs")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()


def test_takeover_is_followed(
    accounts: TopicHarness, gateway: GatewayClient, open_console: Callable[..., ConsoleTab]
) -> None:
    """Comes last: the owners of this module end."""
    name = gateway.open_account()
    overview = open_console(gateway.port).open("overview")
    aggregate = open_console(gateway.port).open("aggregate", "bank_account", name)
    expect(aggregate.get_by_text("version 2 of 2")).to_be_visible()
    plan = accounts.plan(once=False, machine="later")
    with running_owners(plan):
        expect(overview.get_by_text(plan.run)).to_have_count(2)
        gateway.post(name, "Deposit", {"amount": 1})
        expect(aggregate.get_by_text("version 3 of 3")).to_be_visible()
    expect(overview.get_by_text(f"{plan.run} stopped")).to_have_count(2)
