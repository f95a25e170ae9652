"""The installation without extras: small, and enough to send commands, to read topics, and to watch a run."""

import json
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.installs.machine import Machine, new_machine

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: Packages of the extras.
HEAVY = {"pyspark", "py4j", "lmdb", "numpy", "pandas", "pyarrow"}

#: The largest size in bytes of all packages together.
MOST = 60 * 1024 * 1024


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine with the package alone."""
    machine = new_machine(tmp_path_factory.mktemp("base"), wheels)
    venv.create(machine.home / "venv", with_pip=True)
    machine.run(
        str(machine.home / "venv/bin/pip"), "install", "--quiet", f"cqrs-cli @ {machine.wheel.as_uri()}"
    )
    return machine


def packages(machine: Machine) -> Path:
    (folder,) = (machine.home / "venv/lib").glob("python3*/site-packages")
    return folder


def test_base_is_small(installed: Machine) -> None:
    folder = packages(installed)
    assert {path.name for path in folder.iterdir()} & HEAVY == set()
    own = [path for path in folder.rglob("*") if path.relative_to(folder).parts[0].partition("-")[0] != "pip"]
    assert sum(path.stat().st_size for path in own if path.is_file()) < MOST


def test_base_sends_and_reads(installed: Machine, connection: "Connection", prefix: str) -> None:
    cqrs = str(installed.home / "venv/bin/cqrs")
    common = ["-b", connection.bootstrap_server, "--topic-prefix", prefix, "-o", "json", "-q"]
    installed.run(cqrs, "new", "shop")
    shop = installed.inside("shop")
    for words in (["check"], ["init"], ["send", "inventory", "tea", "Receive", "pieces:=10"], ["status"]):
        shop.run(cqrs, *words, *common)
    (command,) = shop.run(cqrs, "tail", "inventory", "commands", *common).splitlines()
    assert json.loads(command)["message"]["data"] == {"pieces": 10}
    checks = json.loads(shop.run(cqrs, "doctor", "--for", "send", *common))["checks"]
    assert [check["detail"] for check in checks if check["name"] == "spark"] == [
        "without PySpark, which run, replay and verify need"
    ]
