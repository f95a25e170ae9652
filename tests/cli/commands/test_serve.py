"""`cqrs serve`, as it is called."""

import json
import re
import signal
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
        _, said = serving.communicate(timeout=60)
    assert serving.returncode == 3 and "cqrs init" in said


def test_others_need_a_token(cqrs: Cqrs, tmp_path: Path) -> None:
    said = cqrs("serve", "--host", "0.0.0.0")
    assert said.status == 2 and "--token-file" in said.err
    (tmp_path / "token").write_text("short\n")
    said = cqrs("serve", "--token-file", str(tmp_path / "token"))
    assert said.status == 3 and "16 characters" in said.err
    said = cqrs("serve", "--token-file", str(tmp_path / "none"))
    assert said.status == 3 and "write the token into it" in said.err
