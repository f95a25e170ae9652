"""The console with hostile ids and data, large aggregates, a token, a prefix, and a gateway that restarts."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from cqrs_cli.following.gateway.token import Access
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.keys.address import KeyRingAddress
from tests.console.browser.conftest import ConsoleTab, log_in
from tests.console.conftest import ConsoleClient, running_console
from tests.following.gateway.conftest import GatewayClient
from tests.following.processes.process_harness import ProcessHarness, run_in_this_process
from tests.jobs.verify.customers import KEYRING_JSON, customer_harness, register_command
from tests.support import ROOT
from tests.support.commands import FAR_FUTURE, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"
#: An override of the writing direction: without isolation, the following text is reversed.
REVERSED = "\u202egnp.exe"
HOSTILE_ID = f"a/b?c=1#d&e {MARKUP}{REVERSED}%2F"

#: The number of versions of the order `long`.
LONG = 10_000


@pytest.fixture(scope="module")
def shop(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleClient]:
    """A gateway with a hostile order, for which the process manager `checkout` has requested payment."""
    folder = tmp_path_factory.mktemp("orders")
    checkout = ProcessHarness(connection, f"t{uuid.uuid4().hex[:8]}.", state_dir=folder / "state")
    orders, payments = (
        TopicHarness(connection, checkout.prefix, folder, name) for name in ("order", "payment")
    )
    orders.send(
        command("order.Place", HOSTILE_ID, "h1", {"customer": MARKUP + REVERSED}, correlationid="flow-h"),
        command("order.AddLine", HOSTILE_ID, "h2", {"sku": MARKUP, "quantity": 2**60 + 1}),
    )
    run_plan(orders.plan())
    eventually(lambda: orders.is_stable("events"))
    checkout.run_once(from_beginning=True)
    orders.send(command("order.Place", "stopping", "s1", {"customer": "ann"}))
    for harness in (payments, orders):
        eventually(partial(harness.is_stable, "commands"))
        run_plan(harness.plan())
    eventually(lambda: orders.is_stable("events"))
    plan = replace(checkout.plan(), outputs={})  # as if the commands topic was created after the plan
    run_in_this_process(plan)
    retire_processes(plan)
    process = load_process("checkout", ROOT, "aggregates")
    with running_console(
        orders, folder / "gateway", others=[payments.aggregate], processes=[process]
    ) as client:
        yield client


@pytest.fixture(scope="module")
def large_orders(shop: ConsoleClient) -> None:
    """Orders with 1 MB and with many versions."""
    shop.harness.send(
        command("order.Place", "large", "l0", {"customer": "x" * 900_000}),
        *(command("order.AddLine", "large", f"l{n}", {"sku": f"sku-{n}"}) for n in range(1, 151)),
        command("order.Place", "long", "p0", {"customer": "ann"}),
        *(command("order.AddLine", "long", f"p{n}", {"sku": "a"}) for n in range(1, LONG)),
    )
    run_plan(shop.harness.plan())
    assert shop.gateway.get(f"/order/long?at_least={LONG}&wait=60s").status == 200


@pytest.fixture
def console_of_orders(open_console: Callable[..., ConsoleTab], shop: ConsoleClient) -> ConsoleTab:
    return open_console(shop.gateway.port)


def test_markup_stays_text(console_of_orders: ConsoleTab) -> None:
    page = console_of_orders.open("browse", "order", prefix="a/b")
    page.get_by_role("link", name="a/b?c=1#d").click()
    state = page.get_by_role("region", name="State")
    expect(state).to_contain_text(MARKUP + REVERSED)
    assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    assert page.get_by_role("heading", level=1).locator("bdi").inner_text() == HOSTILE_ID
    console_of_orders.check_accessibility()
    console_of_orders.picture("hostile")


def test_numbers_are_exact(console_of_orders: ConsoleTab) -> None:
    page = console_of_orders.open("aggregate", "order", HOSTILE_ID)
    expect(page.get_by_role("region", name="State")).to_contain_text("1152921504606846977")


def test_trace_leads_through_a_process_manager(console_of_orders: ConsoleTab) -> None:
    page = console_of_orders.open("trace", id="flow-h")
    graph = page.get_by_role("group", name="Commands and their causes")
    expect(graph.get_by_role("link", name="Cancel deferred")).to_be_visible()
    console_of_orders.picture("trace-process")
    graph.get_by_role("link", name="Request accepted").click()
    expect(page).to_have_title(f"payment {HOSTILE_ID} · cqrs")


def test_stopping_event_is_skipped(console_of_orders: ConsoleTab) -> None:
    page = console_of_orders.open("processes")
    checkout, dialog = page.get_by_role("region", name="checkout"), page.get_by_role("dialog")
    expect(checkout.get_by_text("stopped at")).to_be_visible()
    checkout.get_by_role("button", name="Skip the event …").click()
    expect(dialog).to_contain_text("checkout will never react to Placed of stopping")
    console_of_orders.check_accessibility()
    console_of_orders.picture("skip")
    dialog.get_by_role("button", name="Skip the event").click()
    expect(dialog).to_contain_text("Skipped: the next event is at")
    dialog.get_by_role("button", name="Close").click()
    expect(checkout.get_by_text("stopped at")).to_be_hidden()


@pytest.mark.nightly
@pytest.mark.usefixtures("large_orders")
def test_large_state_is_shown_in_pieces(console_of_orders: ConsoleTab) -> None:
    page = console_of_orders.open("aggregate", "order", "large")
    state = page.get_by_role("region", name="State")
    expect(state.get_by_text("sku-100", exact=True)).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < 3_000
    state.get_by_role("button", name="50 more members").click()
    expect(state.get_by_text("sku-150", exact=True)).to_be_visible()


@pytest.mark.nightly
@pytest.mark.usefixtures("large_orders")
def test_thousands_of_versions(console_of_orders: ConsoleTab) -> None:
    page = console_of_orders.open("aggregate", "order", "long", version="9000")
    timeline = page.get_by_role("region", name="Timeline")
    expect(timeline.get_by_role("link", name="9,000 LineAdded")).to_be_visible()
    expect(page.get_by_role("region", name="State")).to_contain_text("8998 → 8999")
    timeline.get_by_role("button", name="Older events").click()
    expect(timeline.get_by_role("link", name="8,940 LineAdded")).to_be_visible()


def test_restarted_gateway_is_found_again(
    accounts: TopicHarness, tmp_path: Path, open_console: Callable[..., ConsoleTab]
) -> None:
    with running_console(accounts, tmp_path) as client:
        first = client.gateway
        name = first.open_account()
        console = open_console(first.port)
        page = console.open("aggregate", "bank_account", name)
        expect(page.get_by_text("version 2 of 2")).to_be_visible()
    page.get_by_label("Previous version").click()
    expect(page.get_by_text("The gateway does not answer")).to_be_visible()
    tokens = {"a-token-of-the-tests": Access()}
    with running_console(accounts, tmp_path, port=first.port, tokens=tokens) as client:
        second = client.gateway
        second.token = "a-token-of-the-tests"
        log_in(page, second.token)
        expect(page.get_by_text("The gateway does not answer")).to_be_hidden()
        second.post(name, "Deposit", {"amount": 1})
        expect(page.get_by_text("of 3")).to_be_visible()
        page.close()  # before the gateway: a page that connects again would disturb its end


def test_token_is_asked_for(
    accounts: TopicHarness, tmp_path: Path, open_console: Callable[..., ConsoleTab]
) -> None:
    tokens = {"a-token-of-the-tests": Access()}
    with running_console(accounts, tmp_path, tokens=tokens) as client:
        console = open_console(client.gateway.port)
        page = console.open("browse")
        log_in(page, "wrong")
        expect(page.get_by_role("dialog")).to_contain_text("does not accept")
        console.picture("token")
        log_in(page, "a-token-of-the-tests")
        expect(page.get_by_role("link", name="bank_account")).to_be_visible()
        page.get_by_role("button", name="Forget token").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        page.close()


def test_personal_values_need_their_right(
    connection: Connection, tmp_path: Path, open_console: Callable[..., ConsoleTab]
) -> None:
    (tmp_path / "ring.json").write_text(KEYRING_JSON)
    connection = replace(connection, keys=KeyRingAddress("file:ring.json", tmp_path))
    harness = customer_harness(connection, f"t{uuid.uuid4().hex[:8]}.", tmp_path)
    later = {"name": "Nadelheim", "mail": "n@home", "plan": "free"}
    harness.send(
        register_command("c-1", "Nadelheim", "r-1"),
        command("customer.Register", "c-2", "r-2", later, notbefore=FAR_FUTURE),
    )
    rights = {"clerk": {"read", "send"}, "officer": {"read", "send", "personal", "erase"}}
    tokens = {
        f"a-token-of-a-{name}": Access(frozenset(own_rights), name) for name, own_rights in rights.items()
    }
    with (
        running_owners(harness.plan(once=False)),
        running_console(harness, tmp_path / "gateway", tokens=tokens) as client,
    ):
        console = open_console(client.gateway.port)
        client.gateway.token = "a-token-of-a-clerk"
        eventually(lambda: client.gateway.get("/customer/c-1").status == 200)
        page = console.open("aggregate", "customer", "c-1")
        log_in(page, "a-token-of-a-clerk")
        state, commands = (page.get_by_role("region", name=name) for name in ("State", "Commands"))
        expect(commands.get_by_text("redacted")).to_have_count(2)
        expect(state.get_by_text("redacted").first).to_be_visible()
        assert "Nadelheim" not in page.content()
        console.picture("redacted")
        page.get_by_role("link", name="Send a command").click()
        expect(page.get_by_role("combobox", name="Command")).not_to_contain_text("cqrs.Erase")
        page.go_back()
        page.get_by_role("link", name="Deferred").click()
        expect(page.get_by_role("row", name="c-2").get_by_text("redacted")).to_have_count(2)
        console.picture("redacted-deferred")
        page.go_back()
        page.get_by_role("button", name="Forget token").click()
        log_in(page, "a-token-of-a-officer")
        expect(state).to_contain_text("Nadelheim")
        page.get_by_role("link", name="Send a command").click()
        page.get_by_role("combobox", name="Command").select_option("cqrs.Erase")
        page.get_by_role("button", name="Dry run").click()
        page.get_by_role("button", name="Send cqrs.Erase").click()
        expect(page.get_by_role("region", name="Result")).to_contain_text("accepted")
        page.get_by_role("link", name="Show the aggregate").click()
        expect(state).to_contain_text("Personal values are erased")
        expect(page.get_by_role("region", name="Timeline")).not_to_contain_text("Nadelheim")
        page.close()


def test_prefix_of_a_proxy_is_kept(gateway: GatewayClient, open_console: Callable[..., ConsoleTab]) -> None:
    """The requests of the console stay below the prefix, which the proxy removes."""
    name = gateway.open_account()
    console = open_console(gateway.port, "ops/cqrs/")

    def forward(route: Route) -> None:
        route.continue_(url=route.request.url.replace("/ops/cqrs/", "/"))

    console.page.route("**/ops/cqrs/**", forward)
    page = console.open("aggregate", "bank_account", name)
    expect(page.get_by_text("version 2 of 2")).to_be_visible()
