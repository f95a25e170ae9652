"""The command line of `cqrs serve`."""

import json
import re
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from tests.cli.conftest import Cqrs
from tests.support.project import Project
from tests.support.waiting import eventually


@pytest.mark.kafka
def test_gateway_runs_until_stopped(project: Project) -> None:
    project.cqrs("init", "counter")
    with project.running("serve", "counter", "--port", "0", "--read-only") as gateway:
        assert gateway.stderr is not None
        line = gateway.stderr.readline()
        url = re.search(r"serving counter: (http://127\.0\.0\.1:\d+);", line)
        assert url, line

        def is_ready() -> bool:
            with urllib.request.urlopen(f"{url[1]}/readyz", timeout=30) as answer:
                return bool(json.load(answer)["ready"])

        eventually(is_ready)
        with urllib.request.urlopen(f"{url[1]}/counter", timeout=30) as answer:
            assert json.load(answer) == {"aggregate": "counter", "aggregates": [], "next": None}
        gateway.send_signal(signal.SIGTERM)
        gateway.communicate(timeout=60)
    assert gateway.returncode == 128 + signal.SIGTERM


@pytest.mark.kafka
def test_missing_topics_are_an_error(project: Project) -> None:
    with project.running("serve", "counter", "--port", "0") as gateway:
        _, output = gateway.communicate(timeout=60)
    assert gateway.returncode == 3 and "cqrs init" in output


def test_other_hosts_need_a_token(cqrs: Cqrs, tmp_path: Path) -> None:
    result = cqrs("serve", "--host", "0.0.0.0")
    assert result.status == 2 and "--token-file" in result.err
    (tmp_path / "token").write_text("short\n")
    result = cqrs("serve", "--token-file", str(tmp_path / "token"))
    assert result.status == 3 and "16 characters" in result.err
    result = cqrs("serve", "--token-file", str(tmp_path / "none"))
    assert result.status == 3 and "write the token into the file" in result.err


def test_port_in_use_is_one_error(cqrs: Cqrs) -> None:
    """The port is checked first: no topic is read, and no broker is started."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = cqrs("serve", "--port", str(listener.getsockname()[1]))
    assert result.status == 3 and "cannot be used: Address already in use" in result.err
    assert len(result.err.splitlines()) == 1


@pytest.mark.kafka
def test_second_gateway_is_refused(project: Project) -> None:
    """A second gateway would quarantine the states of the first gateway."""
    project.cqrs("init", "counter")
    with project.running("serve", "counter", "--port", "0") as first:
        assert first.stderr is not None and "serving" in first.stderr.readline()
        with project.running("serve", "counter", "--port", "0") as second:
            _, output = second.communicate(timeout=60)
        assert second.returncode == 3 and "cqrs serve --state-dir DIR" in output
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=60)
