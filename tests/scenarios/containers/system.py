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
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import docker
import pytest

from tests.support import ROOT
from tests.support.absent_broker import free_ports
from tests.support.containers import require_image, run_command
from tests.support.waiting import eventually

PROFILES = "run,process,gateway,projection"
TOKEN = "0123456789abcdef0123456789abcdef"

#: Timeout in seconds: several JVMs share two cores.
TIMEOUT = 120.0

#: Services with a JVM. They get the JVM options that make tests start fast.
_WITH_JAVA = (
    *("kafka1", "kafka2", "kafka3", "run", "standby", "process", "projection"),
    *("spark-master", "spark-worker-1", "spark-worker-2", "spark-run"),
)

IMAGES = {"KAFKA_IMAGE": "apache/kafka:4.1.0", "POSTGRES_IMAGE": "postgres:17"}


class System:
    """compose.yaml under a project name of its own, on free ports."""

    def __init__(self, engine: docker.DockerClient, image: str, folder: Path) -> None:
        images = {name: os.environ.get(name, default) for name, default in IMAGES.items()}
        for name in images.values():
            require_image(engine, name)
        ports = free_ports(5)
        self._prometheus_url = f"http://127.0.0.1:{ports[4]}"
        token = folder / "token"
        token.write_text(TOKEN)
        java_options_file = folder / "quick.yaml"
        java_options = {"JDK_JAVA_OPTIONS": os.environ["JDK_JAVA_OPTIONS"]}
        java_options_file.write_text(
            json.dumps({"services": {service: {"environment": java_options} for service in _WITH_JAVA}})
        )
        self._environment = images | {
            **{f"KAFKA_PORT_{number}": str(port) for number, port in enumerate(ports[1:4], 1)},
            "COMPOSE_PROJECT_NAME": f"cqrs-test-{uuid.uuid4().hex[:8]}",
            "COMPOSE_PROFILES": PROFILES,
            "COMPOSE_FILE": f"compose.yaml:{java_options_file}",
            "GATEWAY_PORT": str(ports[0]),
            "PROMETHEUS_PORT": str(ports[4]),
            "TOKEN_FILE": str(token),
            "CQRS_IMAGE": image,
        }
        self._url = f"http://localhost:{ports[0]}"

    def compose(self, *arguments: str) -> str:
        return run_command(["docker", "compose", *arguments], ROOT / "compose", self._environment)

    def send(self, path: str, **fields: object) -> int:
        """Send a command to `path` (`order/o-7/Place`), wait for its outcome, and return the aggregate's version."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = Request(f"{self._url}/{path}", json.dumps(fields).encode(), headers)
        with urlopen(request, timeout=60) as response:
            return int(json.load(response)["version"])

    def pay(self, order: str) -> bool:
        """Pay for an order. False as long as the payment is not requested."""
        try:
            return self.send(f"payment/{order}/Pay", reference="tr-93") == 2
        except HTTPError as error:
            with error:
                assert json.load(error)["outcome"]["code"] == "NOT_REQUESTED"
            return False

    def is_ready(self, service: str) -> bool:
        """True if the service's run decides in every partition."""
        script = "import sys, urllib.request as u; u.urlopen('http://127.0.0.1:9500/readyz')"
        try:
            self.compose("exec", service, "python", "-c", script)
        except pytest.fail.Exception:
            return False
        return True

    def scrape_health(self) -> dict[str, str]:
        """Return the health of each service that Prometheus scrapes: `up`, `down` or `unknown`."""
        targets = self._prometheus("targets")["activeTargets"]
        return {target["discoveredLabels"]["__meta_dns_name"]: target["health"] for target in targets}

    def alerts(self) -> dict[str, str]:
        """Return the health of each alert rule, as Prometheus evaluates it: `ok`, `err` or `unknown`."""
        groups = self._prometheus("rules")["groups"]
        return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}

    def _prometheus(self, resource: str) -> Any:
        try:
            with urlopen(f"{self._prometheus_url}/api/v1/{resource}", timeout=10) as response:
                return json.load(response)["data"]
        except OSError:  # Prometheus has not started
            return {"activeTargets": [], "groups": []}

    def rows(self) -> dict[str, str]:
        """Return the status of each order in the projection."""
        query = ["--tuples-only", "--no-align", "--command", "SELECT order_id, status FROM recent_orders"]
        host = ["--host", "127.0.0.1", "--username", "cqrs"]
        output = self.compose("exec", "--env", "PGPASSWORD=cqrs", "postgres", "psql", *host, *query)
        return dict(line.split("|") for line in output.splitlines() if "|" in line)


@dataclass
class Orders:
    """The ids of the orders that a client has placed, all decided, and its longest wait for an outcome in seconds."""

    placed: list[str] = field(default_factory=list)
    longest_wait: float = 0.0

    def place_order(self, system: System) -> None:
        """Place one more order and wait until it is decided."""
        order, start = f"o-{len(self.placed)}", time.monotonic()
        assert system.send(f"order/{order}/Place", customer="cleo") == 1
        self.longest_wait = max(self.longest_wait, time.monotonic() - start)
        self.placed.append(order)

    def await_more_orders(self) -> None:
        """Wait until more than three further orders are decided."""
        placed_before = len(self.placed)
        eventually(lambda: len(self.placed) > placed_before + 3, TIMEOUT)


@contextmanager
def orders(system: System) -> Iterator[Orders]:
    """Place orders one after the other while the block lasts, each decided before the next."""
    stop, client, failures = threading.Event(), Orders(), list[Exception]()

    def place_orders() -> None:
        try:
            while not stop.wait(0.05):
                client.place_order(system)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=place_orders, daemon=True)
    thread.start()
    try:
        yield client
    finally:
        stop.set()
        thread.join(90)
    assert failures == []
