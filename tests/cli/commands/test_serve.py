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
def test_it_serves_until_stopped(project: Project) -> None:
    project.cqrs("init", "counter")
    with project.running("serve", "counter", "--port", "0", "--read-only") as serving:
        assert serving.stderr is not None
        line = serving.stderr.readline()
        url = re.search(r"serving counter: (http://127\.0\.0\.1:\d+);", line)
        assert url, line

        def ready() -> bool:
            with urllib.request.urlopen(f"{url[1]}/readyz", timeout=30) as answer:
                return bool(json.load(answer)["ready"])

        eventually(ready)
        with urllib.request.urlopen(f"{url[1]}/counter", timeout=30) as answer:
            assert json.load(answer) == {"aggregate": "counter", "aggregates": [], "next": None}
        serving.send_signal(signal.SIGTERM)
        serving.communicate(timeout=60)
    assert serving.returncode == 128 + signal.SIGTERM


@pytest.mark.kafka
def test_topics_must_be_there(project: Project) -> None:
    with project.running("serve", "counter", "--port", "0") as serving:
        _, output = serving.communicate(timeout=60)
    assert serving.returncode == 3 and "cqrs init" in output


def test_others_need_a_token(cqrs: Cqrs, tmp_path: Path) -> None:
    result = cqrs("serve", "--host", "0.0.0.0")
    assert result.status == 2 and "--token-file" in result.err
    (tmp_path / "token").write_text("short\n")
    result = cqrs("serve", "--token-file", str(tmp_path / "token"))
    assert result.status == 3 and "16 characters" in result.err
    result = cqrs("serve", "--token-file", str(tmp_path / "none"))
    assert result.status == 3 and "write the token into the file" in result.err


def test_taken_port_is_one_error(cqrs: Cqrs) -> None:
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
        assert second.returncode == 3 and "give each gateway its own state_dir" in output
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=60)
