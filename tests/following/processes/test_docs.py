"""Every example and table of docs/processes.md is correct."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cqrs_cli.cli.context import Call
from cqrs_cli.cli.main import parse
from cqrs_cli.core.react import MAX_SENT
from cqrs_cli.following.processes.composer import MAX_EVENT_BYTES
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.process_topics import ProcessTopics, process_acls
from tests.scenarios.secured.acls import acls_of_command
from tests.support import ROOT
from tests.support.user_code import write_process

TEXT = (ROOT / "docs/processes.md").read_text(encoding="utf-8")
PROCESS, TEST, PUBLICATION = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
CONSOLE = re.findall(r"^\$ (cqrs .*)$", TEXT, re.MULTILINE)
GRANTS = re.findall(r"^kafka-acls\.sh (.*)$", TEXT, re.MULTILINE)


@pytest.mark.program
def test_example_process_works(tmp_path: Path) -> None:
    write_process(tmp_path, PROCESS, "checkout")
    assert sorted(load_process("checkout", tmp_path, "aggregates").sources) == ["order", "payment"]
    subprocess.run([sys.executable, "-c", TEST], cwd=tmp_path, check=True)
    write_process(tmp_path, PUBLICATION, "orders")
    assert load_process("orders", tmp_path, "aggregates").output_topics == ("shop.orders",)


@pytest.mark.parametrize("line", [*CONSOLE, "cqrs run --process checkout --skip checkout:order:3@250"])
def test_command_lines_are_valid(line: str) -> None:
    assert isinstance(parse(shlex.split(line)[1:]), Call)


def test_page_lists_the_acls() -> None:
    shown: list[RequiredAcl] = [need for line in GRANTS for need in acls_of_command(line)]
    events, commands = (
        [f"{name}.{kind}" for name in ("order", "payment")] for kind in ("events", "commands")
    )
    assert sorted(shown) == sorted(process_acls(ProcessTopics("checkout"), events, commands))


def test_limits_are_documented() -> None:
    assert f"more than {MAX_SENT:,} commands or {MAX_EVENT_BYTES >> 20} MiB for one event" in TEXT
