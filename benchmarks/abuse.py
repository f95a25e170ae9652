"""Hostile clients of a gateway, on this machine: if its limits fail, its memory and `/healthz` show it.

During each attack another client requests `/healthz` and a state. `refused`: the number of answers 413 and 503 to the
attackers. Memory is the gateway's own (RssAnon), the last figure five seconds after the attack.
"""

import base64
import http.client
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are its public names
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from benchmarks.environment import Arena, anonymous, deposit, open_accounts
from cqrs_cli.system.limits import raise_descriptors

#: Events of the only account, whose history is requested.
EVENTS = 20_000

#: Least seconds of an attack, and seconds before the next attack.
LASTING, AFTERWARDS = 3.0, 5.0

HISTORY = "/bank_account/acc-0/history"

#: The statuses of the answers to attackers.
Answers = list[int]

Attack = Callable[[int, Answers], AbstractContextManager[None]]


def fill(environment: Arena) -> None:
    """Create an account with a long history, and a commands topic that rejects commands of half a megabyte."""
    topics = environment.topics("bank_account", 1)
    entry = ConfigEntry("max.message.bytes", "500000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topics.commands, incremental_configs=[entry])
    admin = AdminClient(environment.connection.librdkafka())
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)
    open_accounts(environment, topics, 1)
    deposit(environment, topics, EVENTS, 1)
    environment.cqrs("run", "bank_account", "--once")


def attack_all(server: int, port: int) -> list[dict[str, Any]]:
    """Return a row for each attack on the gateway with this process id."""
    raise_descriptors(10_000)
    while _asked(port, "/readyz")[0] != 200:
        time.sleep(0.2)
    return [_attacked(server, port, what, attack) for what, attack in ATTACKS.items()]


def _attacked(server: int, port: int, what: str, attack: Attack) -> dict[str, Any]:
    print(what, file=sys.stderr, flush=True)
    before, most, stop = anonymous(server), 0, threading.Event()

    def watch() -> None:
        nonlocal most
        while not stop.wait(0.05):
            most = max(most, anonymous(server))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    answers: Answers = []
    alive, states = list[float](), list[float]()
    with attack(port, answers):
        until = time.monotonic() + LASTING
        while time.monotonic() < until:
            alive.append(_asked(port, "/healthz")[1])
            states.append(_asked(port, "/bank_account/acc-0")[1])
            time.sleep(0.05)
    time.sleep(AFTERWARDS)
    stop.set()
    watching.join()
    megabytes = {
        "MB before": before / 1e6,
        "MB at most": most / 1e6,
        "MB afterwards": anonymous(server) / 1e6,
    }
    refused = sum(status in (413, 503) for status in answers)
    slowest = {"slowest /healthz in ms": max(alive), "slowest state in ms": max(states)}
    return {"what": what, "refused": refused, **slowest, **megabytes}


def _asked(port: int, path: str) -> tuple[int, float]:
    """Return the status of a GET, and the milliseconds until its answer."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, 1000 * (time.perf_counter() - began)


def _crowd(clients: int, request: bytes) -> Attack:
    """Return an attack by clients that send these bytes, and read no answer."""

    @contextmanager
    def attack(port: int, answers: Answers) -> Iterator[None]:
        with ExitStack() as stack:
            crowd = []
            for _ in range(clients):
                connection = stack.enter_context(socket.socket())
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", port))
                with suppress(OSError):  # the gateway has closed the connection
                    connection.sendall(request)
                crowd.append(connection)
            yield
            for connection in crowd:
                connection.setblocking(False)
                with suppress(OSError):
                    if (head := connection.recv(12)).startswith(b"HTTP/1.1 "):
                        answers.append(int(head[9:]))

    return attack


def _leaving(clients: int) -> Attack:
    """Return an attack by clients that request the history, and disconnect."""

    @contextmanager
    def attack(port: int, answers: Answers) -> Iterator[None]:
        for _ in range(clients):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(_get(HISTORY))
        yield

    return attack


@contextmanager
def _too_large(port: int, answers: Answers) -> Iterator[None]:
    """Send commands that the topic rejects, one after the other."""
    noise = base64.b64encode(os.urandom(750_000)).decode()  # the topic limits compressed bytes
    body = json.dumps({"owner": noise}).encode()

    def send() -> None:
        for number in range(200):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/bank_account/large-{number}/Open", body, headers)
            answer = connection.getresponse()
            answer.read()
            answers.append(answer.status)
            connection.close()

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    yield
    sending.join()


def _get(path: str, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}\r\n".encode()


_STREAM = _get("/bank_account?from=beginning", "Accept: text/event-stream\r\n")
_ENDLESS = b"POST /bank_account/a/Open HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{"

ATTACKS: dict[str, Attack] = {
    "3,000 connections without a word": _crowd(3_000, b""),
    "3,000 beginnings of a request": _crowd(3_000, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"),
    "2,200 bodies that do not end": _crowd(2_200, _ENDLESS),
    "200 commands that the topic refuses, 1 MB each": _too_large,
    "300 histories whose clients go": _leaving(300),
    "50 histories whose clients read nothing": _crowd(50, _get(HISTORY)),
    "1,100 streams whose clients read nothing": _crowd(1_100, _STREAM),
}
