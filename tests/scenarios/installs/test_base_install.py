"""The installation without extras: small, and enough to send commands, to read topics, and to watch a run."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.installs.machine import Machine, new_machine

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: Packages of the extras.
PACKAGES_OF_EXTRAS = {"pyspark", "py4j", "lmdb", "numpy", "pandas", "pyarrow"}

#: The largest size in bytes of all packages together.
MAX_BYTES = 60 * 1024 * 1024


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine with the package alone."""
    machine = new_machine(tmp_path_factory.mktemp("base"), wheels)
    uv, folder = str(Path(sys.executable).with_name("uv")), str(machine.home / "venv")  # faster than pip
    machine.run(uv, "venv", "--quiet", folder)
    machine.run(uv, "pip", "install", "--quiet", "--python", folder, f"cqrs-cli @ {machine.wheel.as_uri()}")
    return machine


def site_packages(machine: Machine) -> Path:
    (folder,) = (machine.home / "venv/lib").glob("python3*/site-packages")
    return folder


def test_base_is_small(installed: Machine) -> None:
    folder = site_packages(installed)
    assert {path.name for path in folder.iterdir()} & PACKAGES_OF_EXTRAS == set()
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < MAX_BYTES


def test_base_sends_and_reads(installed: Machine, connection: "Connection", prefix: str) -> None:
    cqrs = str(installed.home / "venv/bin/cqrs")
    common_options = ["-b", connection.bootstrap_server, "--topic-prefix", prefix, "-o", "json", "-q"]
    installed.run(cqrs, "new", "shop")
    shop = installed.in_folder("shop")
    for arguments in (["check"], ["init"], ["send", "inventory", "tea", "Receive", "pieces:=10"], ["status"]):
        shop.run(cqrs, *arguments, *common_options)
    (command,) = shop.run(cqrs, "tail", "inventory", "commands", *common_options).splitlines()
    assert json.loads(command)["message"]["data"] == {"pieces": 10}
    checks = json.loads(shop.run(cqrs, "doctor", "--for", "send", *common_options))["checks"]
    assert [check["detail"] for check in checks if check["name"] == "spark"] == [
        "without PySpark, which run, replay and verify need"
    ]
