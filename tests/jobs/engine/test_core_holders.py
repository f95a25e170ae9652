"""The applications that hold a standalone master's cores, from the JSON of its web UI, here of a fake server."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from cqrs_cli.errors import UnavailableError
from cqrs_cli.jobs.engine.slots import describe_holders, describe_state, wait_for_slots

RUN = {"id": "app-1", "name": "cqrs run bank_account", "cores": 4, "user": "ada", "state": "RUNNING"}
OWN = {"id": "app-2", "name": "cqrs replay bank_account", "cores": 0, "user": "ada", "state": "WAITING"}
HELD = {"cores": 4, "coresused": 4, "activeapps": [OWN, RUN], "status": "ALIVE"}
TOLD = "all of its 4 cores are in use: cqrs run bank_account (app-1, user ada) holds 4"


@contextmanager
def web_ui(response: bytes) -> Iterator[int]:
    """Run a web UI that responds to `/json/`, and yield its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/json/" else 404)
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_the_holder_is_named() -> None:
    assert describe_state(HELD, "app-2") == TOLD
    other = {**OWN, "id": "app-3"}
    assert describe_state({**HELD, "activeapps": [OWN, RUN, other]}, "app-2") == f"{TOLD}; 1 more wait"


def test_other_reasons_are_told() -> None:
    assert describe_state({"cores": 0, "activeapps": [OWN]}, "app-2") == "it has no workers"
    free = describe_state({**HELD, "coresused": 2, "activeapps": [OWN, {**RUN, "cores": 2}]}, "app-2")
    assert free.startswith("2 of its 4 cores are free: has a worker memory for spark.executor.memory?")


def test_the_web_ui_is_asked() -> None:
    with web_ui(json.dumps(HELD).encode()) as port:
        assert describe_holders("spark://127.0.0.1:7077", str(port), "app-2") == TOLD
        assert describe_holders("spark://127.0.0.1:7077,127.0.0.1:7078", str(port), "app-2") == TOLD
    assert describe_holders("local[2]", "8080", "app-2") == ""
    assert describe_holders("k8s://https://127.0.0.1:443", "8080", "app-2") == ""


@pytest.mark.parametrize("told", [b"", b"<html>", b"[]", b'{"cores": 4}'])
def test_a_web_ui_may_be_another(told: bytes) -> None:
    with web_ui(told) as port:
        assert "--conf spark.master.ui.port=N" in describe_holders(
            "spark://127.0.0.1:7077", str(port), "app-2"
        )


class Executors(NamedTuple):
    """The only executor of an application, as Spark's JVM lists it."""

    cores: int

    def size(self) -> int:
        return 1

    def apply(self, _: int) -> "Executors":
        return self

    def totalCores(self) -> int:
        return self.cores


def waiting(port: int, cores: Iterator[int]) -> Any:
    """Return a context whose executors have the cores of `cores`."""
    conf = {"spark.master.ui.port": str(port)}
    store = SimpleNamespace(executorList=lambda _: Executors(next(cores)))
    return SimpleNamespace(
        master="spark://127.0.0.1:7077",
        applicationId="app-2",
        _conf=conf,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store)),
    )


def none_until(notes: list[str]) -> Iterator[int]:
    """Yield no cores until a message is reported."""
    while True:
        yield 2 if notes else 0


def test_waiting_is_told_once() -> None:
    notes: list[str] = []
    with web_ui(json.dumps(HELD).encode()) as port:
        assert wait_for_slots(waiting(port, none_until(notes)), report=notes.append, report_after=0.0) == 2
    assert notes == [f"waiting for cores of spark://127.0.0.1:7077: {TOLD}"]


def test_the_end_of_waiting_names_the_holder() -> None:
    with (
        web_ui(json.dumps(HELD).encode()) as port,
        pytest.raises(UnavailableError, match="gave no executor within 0 s: all of its 4 cores are in use"),
    ):
        wait_for_slots(waiting(port, none_until([])), timeout=0.0)
