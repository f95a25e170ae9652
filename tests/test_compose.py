"""`compose/` agrees with `compose/README.md`."""

import re
import shlex
from typing import Any

import pytest
import yaml

from cqrs_cli.cli import main
from cqrs_cli.cli.context import Call
from tests.support import ROOT
from tests.support.containers import require_compose, run_command
from tests.support.page import Page

TEXT = (ROOT / "compose/README.md").read_text(encoding="utf-8")
COMPOSE = (ROOT / "compose/compose.yaml").read_text(encoding="utf-8")
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE)["services"]
PROFILES = sorted({name for service in SERVICES.values() for name in service.get("profiles", [])})
LINES = Page("compose/README.md").commands()[0]


def test_addresses_are_the_published_ports() -> None:
    ports = re.findall(r'ports: \["127\.0\.0\.1:\$\{KAFKA_PORT_\d:-(\d+)\}:', COMPOSE)
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    assert f"export CQRS_BOOTSTRAP_SERVER={servers}" in LINES


def test_variables_have_the_documented_defaults() -> None:
    """A row of the page has each variable and its default."""
    rows = [line for line in TEXT.splitlines() if line.startswith("| `")]
    for name, default in set(re.findall(r"\$\{(\w+):-([^}]+)\}", COMPOSE)):
        (row,) = [row for row in rows if f"`{re.sub(r'_PORT_[23]', '_PORT_1', name)}`" in row]
        assert default.removeprefix("./") in row.replace("compose/", "")


def test_profiles_are_documented() -> None:
    assert set(PROFILES) == set(re.findall(r"^\| `([a-z]+)` \| ", TEXT, re.MULTILINE))


@pytest.mark.docker
@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_can_start_alone(profile: str) -> None:
    """Compose accepts the file with the profile, and starts its services, the brokers, and their dependencies."""
    require_compose()
    output = run_command(
        ["docker", "compose", "--profile", profile, "config", "--services"], ROOT / "compose"
    )
    expected = {name for name, service in SERVICES.items() if profile in service.get("profiles", [profile])}
    assert set(output.split()) == expected


def test_containers_run_commands_of_cqrs() -> None:
    for service in SERVICES.values():
        if "cqrs" in service["image"] and service["command"][0] not in ("master", "worker"):
            assert isinstance(main.parse(service["command"]), Call)


def test_prometheus_reads_the_alerts() -> None:
    config = yaml.safe_load((ROOT / "compose/prometheus.yaml").read_text())
    mounted = {volume.split(":")[1] for volume in SERVICES["prometheus"]["volumes"]}
    assert set(config["rule_files"]) < mounted
    (job,) = config["scrape_configs"]
    assert set(job["dns_sd_configs"][0]["names"]) < SERVICES.keys() and job["job_name"] == "cqrs"


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("cqrs ")])
def test_documented_commands_are_valid(line: str) -> None:
    assert isinstance(main.parse(shlex.split(line)[1:]), Call)
