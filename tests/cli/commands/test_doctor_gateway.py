"""`cqrs doctor --gateway` with running gateways."""

import json
from pathlib import Path

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.following.gateway.token import Access
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.cli.conftest import Cqrs
from tests.following.gateway.conftest import running_gateway
from tests.support import ROOT

pytestmark = pytest.mark.kafka

TOKEN = "sixteen-characters-and-more"


@pytest.fixture
def accounts(prefix: str, cqrs_on_broker: Cqrs) -> Topics:
    """Topics without an owner, which a gateway can serve."""
    return Topics("bank_account", prefix)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the aggregate that the gateways serve."""
    folder = tmp_path / "shop"
    (folder / "aggregates").mkdir(parents=True)
    (folder / "cqrs.toml").touch()
    for name in ("__init__.py", "bank_account.py"):
        (folder / "aggregates" / name).write_text((ROOT / "aggregates" / name).read_text())
    (folder / "token").write_text(TOKEN)
    monkeypatch.chdir(folder)
    return folder


def gateway_checks(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[str, str]]:
    """Return status and detail of the gateway checks, except for the check of its libraries."""
    capfd.readouterr()
    main(["doctor", "-q", "-o", "json", *arguments])
    checks = json.loads(capfd.readouterr().out)["checks"]
    return [(check["status"], check["detail"]) for check in checks if check["name"] == "gateway"][1:]


def test_gateway_of_the_project_is_ok(
    connection: Connection, accounts: Topics, shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_gateway(connection, accounts, shop / "state") as gateway:
        url = f"http://127.0.0.1:{gateway.port}"
        assert gateway_checks(capfd, "--gateway", url) == [
            ("ok", f"{url} answers"),
            ("ok", f"{url} has processed the events from before its start"),
            ("ok", f"{url} requires no token"),
            ("ok", f"{url} serves bank_account with this project's code, and accepts commands"),
        ]


def test_gateway_with_other_code_is_a_warning(
    connection: Connection, accounts: Topics, shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = shop / "aggregates/bank_account.py"
    code.write_text(code.read_text().replace("    owner: str\n", "    owner: str\n    city: str = ''\n", 1))
    with running_gateway(connection, accounts, shop / "state") as gateway:
        url = f"http://127.0.0.1:{gateway.port}"
        assert gateway_checks(capfd, "--gateway", url)[3:] == [
            ("warn", f"{url} serves bank_account with other code than this project's")
        ]


def test_token_is_checked(
    connection: Connection, accounts: Topics, shop: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_gateway(
        connection, accounts, shop / "state", read_only=True, tokens={TOKEN: Access()}
    ) as gateway:
        url = f"http://127.0.0.1:{gateway.port}"
        assert [status for status, _ in gateway_checks(capfd, "--gateway", url)] == ["ok", "ok", "warn"]
        assert gateway_checks(capfd, "--gateway", url, "--token-file", "token")[2:] == [
            ("ok", f"{url} requires a token, and accepts this token"),
            ("ok", f"{url} serves bank_account with this project's code, and accepts no commands"),
        ]
        (shop / "token").write_text(TOKEN[::-1])
        assert gateway_checks(capfd, "--gateway", url, "--token-file", "token")[2:] == [
            ("fail", f"{url} rejects this token")
        ]
        other_url = f"http://localhost:{gateway.port}"
        assert gateway_checks(capfd, "--gateway", other_url) == [
            ("fail", f"{other_url} does not accept this host name")
        ]


def test_token_file_needs_a_gateway(cqrs: Cqrs) -> None:
    result = cqrs("doctor", "--token-file", "token")
    assert result.status == 2 and "name it: --gateway URL" in result.err
