import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from cqrs_cli.kafka.embedded import broker as embedded

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: Enables SIGINT, because a shell that runs these tests in the background makes its children ignore it.
PROGRAM = """
import signal, sys
from cqrs_cli.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(["demo", *sys.argv[1:]]))
"""
DEMO = [sys.executable, "-c", PROGRAM]
#: The address of a foreign broker, which the demo must ignore.
ENVIRONMENT = {**os.environ, "CQRS_BOOTSTRAP_SERVER": "127.0.0.1:1"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("anywhere")


def demo_folder(project: Path) -> Path:
    return project / ".cqrs" / "demo"


def broker_pid(project: Path) -> int | None:
    """Return the pid of the demo's broker, if it runs."""
    broker = embedded.broker_status(demo_folder(project))
    return broker.pid if broker else None


@pytest.fixture(scope="module")
def first_run(project: Path) -> subprocess.CompletedProcess[str]:
    """The first run in an empty folder."""
    process = subprocess.run(DEMO, cwd=project, env=ENVIRONMENT, capture_output=True, text=True)
    assert broker_pid(project) is None, "the broker it started was left running"
    return process


@pytest.fixture(scope="module")
def second_document(project: Path, first_run: object) -> dict[str, Any]:
    """The document of a second run with JSON output, while the first run's broker is in use."""
    broker = embedded.start_broker(demo_folder(project))
    try:
        process = subprocess.run(
            [*DEMO, "-q", "-o", "json"], cwd=project, env=ENVIRONMENT, capture_output=True
        )
        assert broker_pid(project) == broker.pid, "a broker that ran before was stopped"
    finally:
        embedded.stop_broker(demo_folder(project))
    assert (process.returncode, process.stderr) == (0, b"")
    return dict(json.loads(process.stdout))


def test_demo_prints_its_results(first_run: subprocess.CompletedProcess[str]) -> None:
    assert first_run.returncode == 0, first_run.stderr
    for text in (
        "VERSION_CONFLICT",
        "OVERDRAWN",
        "duplicate",
        "INVALID_ENVELOPE",
        "the same as the live state",
        "An order that is not paid",
        "CalledOff",
        "its projection is projections/recent_orders.py",
        "To look around (Kafka is stopped: the next command starts it):",
    ):
        assert text in first_run.stdout
    assert "cd .cqrs/demo" in first_run.stdout
    assert "cqrs new shop" in first_run.stdout


def test_programs_get_one_document(second_document: dict[str, Any]) -> None:
    assert [step["outcome"]["status"] for step in second_document["commands"]].count("accepted") == 6
    assert second_document["decided"]["commands"] == len(second_document["commands"]) == 10
    assert [account["state"]["balance"] for account in second_document["accounts"]] == [75, 20]


def test_the_order_times_out(second_document: dict[str, Any]) -> None:
    """The payment is requested and called off.

    The cancellation is deferred first, unless its first decision is late.
    """
    (place_command,) = second_document["order"]["commands"]
    commands = {
        (command["type"], command["outcome"]["status"]): command
        for command in place_command["events"][0]["commands"]
    }
    request_key, deferral_key, cancellation_key = (
        ("payment.Request", "accepted"),
        ("order.Cancel", "deferred"),
        ("order.Cancel", "accepted"),
    )
    assert commands.keys() - {deferral_key} == {request_key, cancellation_key}
    assert (
        deferral_key not in commands
        or commands[deferral_key]["outcome"]["due"] <= commands[cancellation_key]["time"]
    )
    (call_off_command,) = commands[cancellation_key]["events"][0]["commands"]
    assert (call_off_command["type"], call_off_command["outcome"]["status"]) == (
        "payment.CallOff",
        "accepted",
    )


def test_orders_of_both_runs_are_rows(second_document: dict[str, Any]) -> None:
    """The rows are the orders of both runs, the newest first."""
    rows = second_document["read_model"]
    assert rows[0]["order_id"] == second_document["order"]["id"]
    assert [(row["customer"], row["status"]) for row in rows] == [("cleo", "cancelled")] * 2


def test_replay_equals_both_live_states(second_document: dict[str, Any]) -> None:
    assert second_document["equal"] is True
    assert second_document["live"] == second_document["replay"]
    assert second_document["live"]["aggregates"] == 4


def test_the_suggested_command_works(project: Path, second_document: dict[str, Any]) -> None:
    (show,) = (step for step in second_document["next"] if step.startswith("cqrs show"))
    try:
        command = [sys.executable, "-m", *show.replace("cqrs", "cqrs_cli", 1).split(), "-o", "json"]
        result = json.loads(subprocess.check_output(command, cwd=demo_folder(project)))
    finally:
        embedded.stop_broker(demo_folder(project))
    assert (result["version"], len(result["history"])) == (4, 4)


def test_console_shows_what_was_played(project: Path, second_document: object) -> None:
    command = [*DEMO, "--serve", "-o", "json"]
    with subprocess.Popen(
        command, cwd=project, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        notes = iter(process.stderr.readline, "")
        serving = next(note for note in notes if "serving" in note)
        address = serving.split("http://")[1].split(";")[0]
        url = f"http://{address}/api/projections"
        (projection,) = json.load(urlopen(url))["projections"]
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert (projection, process.returncode) == ("recent_orders", 130)
    assert "cqrs serve" in json.loads(output)["next"]
    assert broker_pid(project) is None


@pytest.mark.parametrize(
    ("step", "number", "status"),
    [
        ("creating topics", signal.SIGTERM, 143),
        ("starting Spark", signal.SIGINT, 130),
        ("deciding", signal.SIGINT, 130),
    ],
)
def test_a_signal_leaves_nothing_running(tmp_path: Path, step: str, number: int, status: int) -> None:
    """After the signal, only steps that had begun are printed."""
    with subprocess.Popen(DEMO, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if step in line:
                break
        process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()  # otherwise the `with` block would wait for its end
            raise
    assert process.returncode == status
    assert all(line.endswith(" …") for line in errors.splitlines()), errors
    assert broker_pid(tmp_path) is None
    assert pids_with_open(demo_folder(tmp_path) / ".cqrs/log/demo.log") == []


def pids_with_open(file: Path) -> list[int]:
    """Return the processes that have the file open. Spark's JVM has its log open as long as it lives."""
    descriptors = (path for path in Path("/proc").glob("[0-9]*/fd/[12]"))
    return [int(path.parts[2]) for path in descriptors if points_to(path, file)]


def points_to(link: Path, file: Path) -> bool:
    try:
        return link.readlink() == file
    except OSError:  # not readable, or the process has ended
        return False
