"""The gateway's page in a real browser: it loads, requests data, and shows the targets of links."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.following.gateway.conftest import GatewayClient

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture
def browse(gateway: GatewayClient, tmp_path: Path):  # type: ignore[no-untyped-def]
    """A function that returns the text of the page at a link, after all its requests."""
    if BROWSER is None:
        pytest.skip("there is no chromium")

    def page_text(link: str) -> str:
        command = [
            str(BROWSER),
            "--headless",
            "--no-sandbox",  # the CI user is root
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=20000",
            "--dump-dom",
            f"http://127.0.0.1:{gateway.port}/{link}",
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    return page_text


@pytest.mark.kafka
@pytest.mark.slow
def test_page_shows_an_aggregates_past(gateway: GatewayClient, browse) -> None:  # type: ignore[no-untyped-def]
    name = gateway.open_account()
    listed = browse("")
    assert f'data-id="{name}"' in listed and "in 2 partitions" in listed
    now = browse(f"#bank_account/{name}")
    assert "version 2 of 2" in now and '<span class="changed">balance: 100\n</span>' in now
    past = browse(f"#bank_account/{name}@1")
    assert "version 1 of 2" in past and "balance: 0" in past and "Deposited" in past
    assert "it does not exist" in browse("#bank_account/nobody")
