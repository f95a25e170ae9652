"""The image of docs/deployment.md: small, without a privileged user, and able to run every command.

The whole system of compose/ runs in it, from the gateway to a row of PostgreSQL, also while its runs are updated.
"""

import json
import os
import uuid
from pathlib import Path
from urllib.request import Request, urlopen

import docker
import pytest
import yaml

from cqrs_cli import scaffold
from tests.scenarios.containers.system import TIMEOUT, System, orders
from tests.support import ROOT
from tests.support.absent_broker import free_ports
from tests.support.containers import require_image, run_command
from tests.support.sampling import sample_cases
from tests.support.waiting import eventually

pytestmark = [pytest.mark.docker, pytest.mark.slow]

#: Jobs that need Spark's tables, Arrow or Parquet. None may need a jar that the image omits.
JOBS = """
cd .cqrs/demo
cqrs verify bank_account --state
cqrs sql "SELECT type, count(*) AS n FROM bank_account_events GROUP BY type ORDER BY type"
cqrs whatif bank_account --with aggregates.bank_account --out /tmp/differences
"""


@pytest.mark.parametrize("jobs", sample_cases(["", JOBS], ""), ids=["demo", "all"])
def test_jobs_run_in_the_image(image: str, kafka_jars: Path, jobs: str) -> None:
    """The container's user has no privileges, and its file system is read-only."""
    output = run_command(
        [
            *("docker", "run", "--rm", "--read-only", "--cap-drop", "ALL"),
            *("--tmpfs", "/tmp:exec", "--tmpfs", "/app/.cqrs:uid=1000,mode=700"),
            *("--volume", f"{kafka_jars}:/jars:ro", "--env", "CQRS_CACHE_DIR=/jars"),
            *("--env", "JDK_JAVA_OPTIONS"),  # the JVM starts as fast as in other tests
            *("--entrypoint", "sh", image, "-euc", f"cqrs demo\n{jobs}"),
        ],
        kafka_jars,
    )
    assert "The order as a row of a database" in output
    assert ("no violation" in output) == bool(jobs)


def test_image_has_an_unprivileged_user(engine: docker.DockerClient, image: str) -> None:
    config = engine.images.get(image).attrs["Config"]
    assert config["User"] == "1000:1000"
    assert config["Entrypoint"][0] == "dumb-init"
    assert config["Healthcheck"]["Test"] == ["CMD", "healthy"]
    assert config["Labels"]["org.opencontainers.image.version"] in run_command(
        ["docker", "run", "--rm", image, "--version"], Path.cwd()
    )


@pytest.mark.nightly
def test_new_projects_run_in_containers(engine: docker.DockerClient, image: str, tmp_path: Path) -> None:
    """The new project is built and started as its README describes: a command returns its outcome."""
    kafka, (port,) = os.environ.get("KAFKA_IMAGE", "apache/kafka:4.1.0"), free_ports(1)
    require_image(engine, kafka)
    shop = tmp_path / "shop"
    scaffold.create(shop)
    project = {"COMPOSE_PROJECT_NAME": f"cqrs-test-{uuid.uuid4().hex[:8]}", "GATEWAY_PORT": str(port)}
    environment = {"CQRS_IMAGE": image, "KAFKA_IMAGE": kafka, **project}
    try:
        run_command(["make", "up"], shop, environment)
        token = (shop / ".cqrs/secret/token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        url = f"http://localhost:{port}/inventory/tea/Receive"
        with urlopen(Request(url, b'{"pieces": 10}', headers), timeout=60) as response:
            assert json.load(response)["version"] == 1
    finally:
        run_command(
            ["docker", "compose", "down", "--volumes", "--rmi", "local", "--timeout", "5"], shop, environment
        )


@pytest.mark.nightly
def test_orders_reach_the_database(system: System) -> None:
    assert system.send("order/first/Place", customer="ada") == 1
    eventually(lambda: system.rows().get("first") == "placed", TIMEOUT)


@pytest.mark.nightly
def test_process_ships_paid_orders(system: System) -> None:
    """Order, payment and the process manager between them are separate services."""
    assert system.send("order/paid/Place", customer="bo") == 1
    assert system.send("order/paid/AddLine", sku="tea") == 2
    eventually(lambda: system.pay("paid"), TIMEOUT)
    eventually(lambda: system.rows().get("paid") == "shipped", TIMEOUT)


@pytest.mark.nightly
def test_prometheus_scrapes_all_services(engine: docker.DockerClient, system: System) -> None:
    """Prometheus finds every service with metrics by its name, and evaluates the alerts."""
    require_image(engine, os.environ.get("PROMETHEUS_IMAGE", "prom/prometheus:v3.5.0"))
    system.compose("up", "--detach", "--no-deps", "prometheus")
    services = {"run", "standby", "process", "projection"}
    eventually(lambda: system.scrape_health() == dict.fromkeys(services, "up"), TIMEOUT)
    names = {
        rule["alert"]
        for rule in yaml.safe_load((ROOT / "compose/alerts.yaml").read_text())["groups"][0]["rules"]
    }
    eventually(lambda: system.alerts() == dict.fromkeys(names, "ok"), TIMEOUT)


@pytest.mark.nightly
def test_runs_decide_during_an_update(system: System) -> None:
    """First the standby is updated, then the active run. Every order that is sent during the update is decided once."""
    with orders(system) as client:
        for service in ("standby", "run"):
            client.await_more_orders()
            system.compose("up", "--detach", "--wait", "--no-deps", "--force-recreate", service)
        client.await_more_orders()
    print(f"{len(client.placed)} orders, the longest wait {client.longest_wait:.2f} s")
    eventually(lambda: system.rows().keys() >= set(client.placed), TIMEOUT)
    system.compose("exec", "run", "cqrs", "verify", "order")  # would end with 5


@pytest.mark.nightly
def test_spark_cluster_takes_over(system: System) -> None:
    """A run on a master and two workers stands by, and decides once the other runs are gone.

    This is the last test of the file: the other runs stay stopped.
    """
    cluster = ("spark-master", "spark-worker-1", "spark-worker-2", "spark-run")
    system.compose("up", "--detach", "--wait", *cluster)
    system.compose("stop", "run", "standby")
    eventually(lambda: system.is_ready("spark-run"), TIMEOUT)
    assert system.send("order/by-the-cluster/Place", customer="dee") == 1
    system.compose("exec", "process", "cqrs", "verify", "order")  # the cluster's cores are taken
