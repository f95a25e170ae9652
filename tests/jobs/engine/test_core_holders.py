"""The applications that use the cores of a standalone master, as its web UI (here a fake) lists them."""

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

RUNNING_APP = {"id": "app-1", "name": "cqrs run bank_account", "cores": 4, "user": "ada", "state": "RUNNING"}
WAITING_APP = {
    "id": "app-2",
    "name": "cqrs replay bank_account",
    "cores": 0,
    "user": "ada",
    "state": "WAITING",
}
MASTER_STATE = {"cores": 4, "coresused": 4, "activeapps": [WAITING_APP, RUNNING_APP], "status": "ALIVE"}
DESCRIPTION = "all of its 4 cores are in use: cqrs run bank_account (app-1, user ada) holds 4"


@contextmanager
def web_ui(response: bytes) -> Iterator[int]:
    """Run a web UI that responds to `/json/`, and yield its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/json/" else 404)
            self.end_headers()
            self.wfile.write(response)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_holder_of_the_cores_is_named() -> None:
    assert describe_state(MASTER_STATE, "app-2") == DESCRIPTION
    other = {**WAITING_APP, "id": "app-3"}
    assert (
        describe_state({**MASTER_STATE, "activeapps": [WAITING_APP, RUNNING_APP, other]}, "app-2")
        == f"{DESCRIPTION}; 1 more wait"
    )


def test_other_reasons_are_described() -> None:
    assert describe_state({"cores": 0, "activeapps": [WAITING_APP]}, "app-2") == "it has no workers"
    description = describe_state(
        {**MASTER_STATE, "coresused": 2, "activeapps": [WAITING_APP, {**RUNNING_APP, "cores": 2}]}, "app-2"
    )
    assert description.startswith(
        "2 of its 4 cores are free: check that a worker has spark.executor.memory free"
    )


def test_holders_come_from_the_web_ui() -> None:
    with web_ui(json.dumps(MASTER_STATE).encode()) as port:
        assert describe_holders("spark://127.0.0.1:7077", str(port), "app-2") == DESCRIPTION
        assert describe_holders("spark://127.0.0.1:7077,127.0.0.1:7078", str(port), "app-2") == DESCRIPTION
    assert describe_holders("local[2]", "8080", "app-2") == ""
    assert describe_holders("k8s://https://127.0.0.1:443", "8080", "app-2") == ""


@pytest.mark.parametrize("response", [b"", b"<html>", b"[]", b'{"cores": 4}'])
def test_foreign_web_ui_gives_a_hint(response: bytes) -> None:
    with web_ui(response) as port:
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


def context_with_cores(port: int, cores: Iterator[int]) -> Any:
    """Return a context whose executors have the cores of `cores`."""
    conf = {"spark.master.ui.port": str(port)}
    store = SimpleNamespace(executorList=lambda _: Executors(next(cores)))
    return SimpleNamespace(
        master="spark://127.0.0.1:7077",
        applicationId="app-2",
        _conf=conf,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store)),
    )


def cores_after_note(notes: list[str]) -> Iterator[int]:
    """Yield no cores until a message is reported."""
    while True:
        yield 2 if notes else 0


def test_waiting_is_reported_once() -> None:
    notes: list[str] = []
    with web_ui(json.dumps(MASTER_STATE).encode()) as port:
        assert (
            wait_for_slots(
                context_with_cores(port, cores_after_note(notes)), report=notes.append, report_after=0.0
            )
            == 2
        )
    assert notes == [f"waiting for cores of spark://127.0.0.1:7077: {DESCRIPTION}"]


def test_timeout_error_names_the_holder() -> None:
    with (
        web_ui(json.dumps(MASTER_STATE).encode()) as port,
        pytest.raises(UnavailableError, match="gave no executor within 0 s: all of its 4 cores are in use"),
    ):
        wait_for_slots(context_with_cores(port, cores_after_note([])), timeout=0.0)
