"""The whole system of compose/, for tests: its services, and clients that place orders."""

import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

import docker

from tests.support import ROOT
from tests.support.containers import find_image, free_ports, run
from tests.support.waiting import eventually

PROFILES = "run,gateway,projection"
TOKEN = "0123456789abcdef0123456789abcdef"

#: Seconds: several JVMs share two cores.
PATIENCE = 120.0

IMAGES = {"KAFKA_IMAGE": "apache/kafka:4.1.0", "POSTGRES_IMAGE": "postgres:17"}


class System:
    """compose.yaml under a name of its own, on free ports."""

    def __init__(self, engine: docker.DockerClient, image: str, folder: Path) -> None:
        images = {name: os.environ.get(name, default) for name, default in IMAGES.items()}
        for name in images.values():
            find_image(engine, name)
        ports = free_ports(4)
        token = folder / "token"
        token.write_text(TOKEN)
        self._environment = images | {
            **{f"KAFKA_PORT_{number}": str(port) for number, port in enumerate(ports[1:], 1)},
            "COMPOSE_PROJECT_NAME": f"cqrs-test-{uuid.uuid4().hex[:8]}",
            "COMPOSE_PROFILES": PROFILES,
            "GATEWAY_PORT": str(ports[0]),
            "TOKEN_FILE": str(token),
            "CQRS_IMAGE": image,
        }
        self._url = f"http://localhost:{ports[0]}"

    def compose(self, *words: str) -> str:
        return run(["docker", "compose", *words], ROOT / "compose", self._environment)

    def send(self, order: str, command: str, **fields: object) -> int:
        """The version that the order has, once the command is decided."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        where = f"{self._url}/order/{order}/{command}"
        request = Request(where, json.dumps(fields).encode(), headers)
        with urlopen(request, timeout=60) as answer:
            return int(json.load(answer)["version"])

    def rows(self) -> dict[str, str]:
        """The status of each order, as the projection has it."""
        ask = ["--tuples-only", "--no-align", "--command", "SELECT order_id, status FROM recent_orders"]
        host = ["--host", "127.0.0.1", "--username", "cqrs"]
        said = self.compose("exec", "--env", "PGPASSWORD=cqrs", "postgres", "psql", *host, *ask)
        return dict(line.split("|") for line in said.splitlines() if "|" in line)


@dataclass
class Orders:
    """The orders that a client has placed, each decided, and the longest that it waited for one, in seconds."""

    placed: list[str] = field(default_factory=list)
    longest: float = 0.0

    def place(self, system: System) -> None:
        """One more."""
        order, began = f"o-{len(self.placed)}", time.monotonic()
        assert system.send(order, "Place", customer="cleo") == 1
        self.longest = max(self.longest, time.monotonic() - began)
        self.placed.append(order)

    def go_on(self) -> None:
        """Wait until some more are decided."""
        before = len(self.placed)
        eventually(lambda: len(self.placed) > before + 3, PATIENCE)


@contextmanager
def orders(system: System) -> Iterator[Orders]:
    """Orders that are placed one after the other while the block lasts; each comes back decided."""
    stop, client, failures = threading.Event(), Orders(), list[Exception]()

    def place() -> None:
        try:
            while not stop.wait(0.05):
                client.place(system)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=place, daemon=True)
    thread.start()
    try:
        yield client
    finally:
        stop.set()
        thread.join(90)
    assert failures == []
