"""`cqrs run` with aggregates and a process manager, and with the process manager only, on Spark."""

import json
import os
import shutil
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.core.messages.event import read_event
from cqrs_cli.kafka.readers import StalledError
from tests.support import ROOT
from tests.support.commands import command
from tests.support.harness import TopicHarness
from tests.support.owners import running_owners
from tests.support.processes import process_tree, python_workers
from tests.support.project import Project
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

LOCAL = ("--master", "local[2]")


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with the example process manager."""
    shutil.copytree(
        ROOT / "processes", project.folder / "processes", ignore=shutil.ignore_patterns("__pycache__")
    )
    return project


def event_types(harness: TopicHarness, subject: str) -> list[str]:
    """Return the types of an aggregate's events; none while an open transaction of a killed owner hides some."""
    try:
        events = [
            read_event(record.value)
            for number in range(harness.partitions)
            for record in harness.records("events", number)
        ]
    except StalledError:
        return []
    return [event.type for event in events if event.subject == subject]


def send(harness: TopicHarness, subject: str, *commands: tuple[str, dict[str, Any]]) -> None:
    name = harness.topics.aggregate
    harness.send(*(command(f"{name}.{type}", subject, f"{type}-{subject}", data) for type, data in commands))


def kill(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.covers("reacted-once")
def test_orders_are_paid_then_shipped(shop: Project, tmp_path: Path) -> None:
    """Each order is paid and shipped once in one `cqrs run`, despite a killed worker. Its cancellation is deferred."""
    orders, payments = shop.harness("order"), shop.harness("payment")
    shop.cqrs("init", "-q")
    log = tmp_path / "output"
    with ExitStack() as stack:
        log_file = stack.enter_context(log.open("wb"))
        process = shop.start_logging(log_file, "run", "order", "payment", "--process", "checkout", *LOCAL)
        stack.callback(kill, process)
        eventually(lambda: "checkout: subscribed" in log.read_text(), within=180)
        for number in range(20):
            send(orders, f"o-{number}", ("Place", {"customer": "ann"}), ("AddLine", {"sku": "tea"}))
            if number == 10:
                eventually(lambda: event_types(payments, "o-0"), within=60)
                os.kill(python_workers(process_tree(process.pid))[0], signal.SIGKILL)
        for number in range(20):
            eventually(lambda number=number: event_types(payments, f"o-{number}"), within=120)  # type: ignore[misc]
            send(payments, f"o-{number}", ("Pay", {"reference": "tr"}))
        for number in range(20):
            eventually(
                lambda number=number: "order.Shipped" in event_types(orders, f"o-{number}"),  # type: ignore[misc]
                within=120,
            )
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert "a task was lost" in log.read_text()
    assert "deciding for order, payment, running checkout: 8 partitions, 2 tasks" in log.read_text()
    for number in range(20):
        assert event_types(payments, f"o-{number}") == ["payment.Requested", "payment.Paid"]
        assert event_types(orders, f"o-{number}") == ["order.Placed", "order.LineAdded", "order.Shipped"]
    for harness, count_per_order in ((orders, 4), (payments, 2)):
        sent_records = [record for number in range(2) for record in harness.records("commands", number)]
        assert len(sent_records) == 20 * count_per_order


def test_failing_process_manager_ends_with_1(shop: Project) -> None:
    orders = shop.harness("order")
    shop.cqrs("init", "-q")
    file = shop.folder / "processes/checkout.py"
    file.write_text(
        file.read_text().replace(
            "        case Placed(customer):\n", "        case Placed(customer):\n            1 / 0\n"
        )
    )
    line = 1 + file.read_text().splitlines().index("            1 / 0")
    send(orders, "o-1", ("Place", {"customer": "ann"}))
    with running_owners(orders.plan(once=False)):
        eventually(lambda: event_types(orders, "o-1"))
    with shop.running(
        "run", "--process", "checkout", "--once", "--from", "beginning", "-o", "json"
    ) as process:
        _, err = process.communicate(timeout=180)
    error = json.loads(err.splitlines()[-1])["error"]
    assert process.returncode == 1
    assert f"process checkout raised on order.Placed {shop.prefix}order.events:" in error["message"]
    assert f"checkout.py:{line}: ZeroDivisionError: division by zero" in error["message"]
    position = error["hint"].partition("--skip ")[2].split()[0]
    summary = shop.json("run", "--process", "checkout", "--once", "--skip", position)
    reactions = summary["reactions"]
    assert (reactions["events"], reactions["commands"]) == (0, 0)
    assert summary["processes"]["checkout"]["lag"] == 0
