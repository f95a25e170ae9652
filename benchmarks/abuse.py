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

from benchmarks.environment import Environment, anonymous_memory, open_accounts, send_deposits
from cqrs_cli.system.limits import raise_descriptor_limit

#: Events of the only account, whose history is requested.
EVENTS = 20_000

#: Least seconds of an attack, and seconds before the next attack.
ATTACK_SECONDS, RECOVERY_SECONDS = 3.0, 5.0

HISTORY = "/bank_account/acc-0/history"

#: The statuses of the answers to attackers.
Statuses = list[int]

Attack = Callable[[int, Statuses], AbstractContextManager[None]]


def fill(environment: Environment) -> None:
    """Create an account with a long history, and a commands topic that rejects commands of half a megabyte."""
    topics = environment.topics("bank_account", 1)
    entry = ConfigEntry("max.message.bytes", "500000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topics.commands, incremental_configs=[entry])
    admin = AdminClient(environment.connection.librdkafka())
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)
    open_accounts(environment, topics, 1)
    send_deposits(environment, topics, EVENTS, 1)
    environment.cqrs("run", "bank_account", "--once")


def attack_all(server: int, port: int) -> list[dict[str, Any]]:
    """Return a row for each attack on the gateway with this process id."""
    raise_descriptor_limit(10_000)
    while _timed_get(port, "/readyz")[0] != 200:
        time.sleep(0.2)
    return [_measure_attack(server, port, label, attack) for label, attack in ATTACKS.items()]


def _measure_attack(server: int, port: int, label: str, attack: Attack) -> dict[str, Any]:
    print(label, file=sys.stderr, flush=True)
    memory_before, peak, stop = anonymous_memory(server), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.wait(0.05):
            peak = max(peak, anonymous_memory(server))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    statuses: Statuses = []
    health_times, state_times = list[float](), list[float]()
    with attack(port, statuses):
        deadline = time.monotonic() + ATTACK_SECONDS
        while time.monotonic() < deadline:
            health_times.append(_timed_get(port, "/healthz")[1])
            state_times.append(_timed_get(port, "/bank_account/acc-0")[1])
            time.sleep(0.05)
    time.sleep(RECOVERY_SECONDS)
    stop.set()
    watcher.join()
    megabytes = {
        "MB before": memory_before / 1e6,
        "MB at most": peak / 1e6,
        "MB afterwards": anonymous_memory(server) / 1e6,
    }
    refused = sum(status in (413, 503) for status in statuses)
    slowest = {"slowest /healthz in ms": max(health_times), "slowest state in ms": max(state_times)}
    return {"what": label, "refused": refused, **slowest, **megabytes}


def _timed_get(port: int, path: str) -> tuple[int, float]:
    """Return the status of a GET, and the milliseconds until its answer."""
    start = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status, 1000 * (time.perf_counter() - start)


def _silent_clients(clients: int, request: bytes) -> Attack:
    """Return an attack by clients that send these bytes, and read no answer."""

    @contextmanager
    def attack(port: int, statuses: Statuses) -> Iterator[None]:
        with ExitStack() as stack:
            connections = []
            for _ in range(clients):
                connection = stack.enter_context(socket.socket())
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.connect(("127.0.0.1", port))
                with suppress(OSError):  # the gateway has closed the connection
                    connection.sendall(request)
                connections.append(connection)
            yield
            for connection in connections:
                connection.setblocking(False)
                with suppress(OSError):
                    if (head := connection.recv(12)).startswith(b"HTTP/1.1 "):
                        statuses.append(int(head[9:]))

    return attack


def _disconnecting_clients(clients: int) -> Attack:
    """Return an attack by clients that request the history, and disconnect."""

    @contextmanager
    def attack(port: int, statuses: Statuses) -> Iterator[None]:
        for _ in range(clients):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(_get(HISTORY))
        yield

    return attack


@contextmanager
def _send_large_commands(port: int, statuses: Statuses) -> Iterator[None]:
    """Send commands that the topic rejects, one after the other."""
    owner = base64.b64encode(os.urandom(750_000)).decode()  # the topic limits compressed bytes
    body = json.dumps({"owner": owner}).encode()

    def send() -> None:
        for number in range(200):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/bank_account/large-{number}/Open", body, headers)
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
            connection.close()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    yield
    sender.join()


def _get(path: str, headers: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n".encode()


_STREAM = _get("/bank_account?from=beginning", "Accept: text/event-stream\r\n")
_ENDLESS = b"POST /bank_account/a/Open HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{"

ATTACKS: dict[str, Attack] = {
    "3,000 connections without a request": _silent_clients(3_000, b""),
    "3,000 beginnings of a request": _silent_clients(3_000, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"),
    "2,200 bodies that do not end": _silent_clients(2_200, _ENDLESS),
    "200 commands that the topic refuses, 1 MB each": _send_large_commands,
    "300 histories whose clients disconnect": _disconnecting_clients(300),
    "50 histories whose clients read nothing": _silent_clients(50, _get(HISTORY)),
    "1,100 streams whose clients read nothing": _silent_clients(1_100, _STREAM),
}
