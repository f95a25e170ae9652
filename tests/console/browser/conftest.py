"""The console in Debian's Chromium, which Playwright drives. A test fails if a page logs an error, or sends a request
to another server.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from cqrs_cli.kafka.connection.connection import Connection
from tests.console.conftest import running_console
from tests.following.gateway.conftest import GatewayClient
from tests.support.commands import FAR_FUTURE, CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.owners import running_owners

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

#: Environment variable: a folder for pictures of the pages. `docs/pictures/console.png` is its `aggregate.png`.
PICTURES = "CQRS_TEST_PICTURES"

#: Milliseconds until a test gives up waiting for a page: on busy cores a page takes seconds.
_TIMEOUT = 20_000

#: Impacts of axe's rules that fail a test.
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of a module: Playwright's event loop would disturb the asyncio of other modules."""
    if BROWSER is None:
        pytest.skip("there is no chromium")
    expect.set_options(timeout=_TIMEOUT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=BROWSER,
            args=["--no-sandbox", "--disable-dev-shm-usage"],  # the CI user is root
        )
        yield browser
        browser.close()


class ConsoleTab:
    """The console of a gateway, in one browser tab."""

    def __init__(self, page: Page, port: int, prefix: str = "") -> None:
        self.page, self.root = page, f"http://127.0.0.1:{port}/{prefix}"
        self.errors: list[str] = []
        self.foreign_urls: list[str] = []  # requested from other servers
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._log)
        page.on("request", self._check_address)

    def _log(self, message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def _check_address(self, request: Request) -> None:
        if not request.url.startswith(self.root) and request.url != "about:blank":
            self.foreign_urls.append(request.url)

    def open(self, *segments: str, **query: str) -> Page:
        """Open the page `#/SEGMENT/…`, as a link from elsewhere does."""
        path = "/".join(quote(segment, safe="") for segment in segments)
        self.page.goto("about:blank")
        self.page.goto(f"{self.root}#/{path}{'?' if query else ''}{urlencode(query)}")
        return self.page

    def check_accessibility(self, *rules: str) -> None:
        """Check the page with these rules of axe, or all: it must find nothing serious."""
        options = {"runOnly": list(rules)} if rules else {}
        found = (
            Axe().run(self.page, options={"resultTypes": ["violations"], **options}).response["violations"]
        )
        serious = [(rule["id"], rule["nodes"][0]["html"]) for rule in found if rule["impact"] in SERIOUS]
        assert serious == []

    def picture(self, name: str) -> None:
        """Save a picture of the page, if `PICTURES` names a folder."""
        if folder := os.environ.get(PICTURES):
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def log_in(page: Page, token: str) -> None:
    """Answer the page's question for a token."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Token").fill(token)
    dialog.get_by_role("button").click()


@pytest.fixture
def open_console(browser: Browser) -> Iterator[Callable[..., ConsoleTab]]:
    """A function that returns a new tab with the console at a port. Errors in the tabs fail the test."""
    consoles: list[ConsoleTab] = []

    def open_tab(port: int, prefix: str = "", **options: Any) -> ConsoleTab:
        defaults = {
            "viewport": {"width": 1280, "height": 800},
            "timezone_id": "UTC",
            "locale": "en",
            "reduced_motion": "reduce",
        }
        context = browser.new_context(**{**defaults, **options})
        context.set_default_timeout(_TIMEOUT)
        consoles.append(ConsoleTab(context.new_page(), port, prefix))
        return consoles[-1]

    yield open_tab
    for console in consoles:
        console.page.context.close()
    assert [(console.errors, console.foreign_urls) for console in consoles] == [([], [])] * len(consoles)


@pytest.fixture(scope="module")
def accounts(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicHarness]:
    """Accounts that owners decide, with commands of all outcomes."""
    folder = tmp_path_factory.mktemp("accounts")
    harness = TopicHarness(connection, f"t{uuid.uuid4().hex[:8]}.", folder, "bank_account", partitions=2)
    harness.send(
        command("bank_account.Open", "acc-1", "open-1", {"owner": "Ada Lovelace"}, correlationid="flow-1"),
        command("bank_account.Deposit", "acc-1", "deposit-1", {"amount": 100}, correlationid="flow-1"),
        command("bank_account.Open", "acc-2", "open-2", {"owner": "Bob"}, correlationid="flow-1"),
        command("bank_account.Withdraw", "acc-2", "withdraw-2", {"amount": 5}, correlationid="flow-1"),
        command("bank_account.Fly", "acc-1", "fly-1", {"wings": 2}),
        command("bank_account.Deposit", "acc-1", "later-1", {"amount": 7}, notbefore=FAR_FUTURE),
        CommandRecord(b"?", b"x"),
    )
    with running_owners(harness.plan(once=False)):
        yield harness


@pytest.fixture(scope="module")
def gateway(accounts: TopicHarness, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayClient]:
    """A gateway with a console over the accounts: `acc-1` and `acc-2` are only read."""
    with running_console(accounts, tmp_path_factory.mktemp("gateway")) as client:
        assert client.gateway.get("/bank_account/acc-1?at_least=2&wait=20s").status == 200
        yield client.gateway


@pytest.fixture
def console(open_console: Callable[..., ConsoleTab], gateway: GatewayClient) -> ConsoleTab:
    return open_console(gateway.port)
