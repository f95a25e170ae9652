"""`cqrs run` as a service: it loses workers, is taken over and is stopped, and leaves no process behind."""

import json
import os
import re
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pexpect
import pytest

from cqrs_cli.kafka import offsets
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.observer import POINTS
from cqrs_cli.ownership.claim import TERMINAL, parse_claim
from tests.support.processes import living_processes, parent_of, process_tree, python_workers
from tests.support.project import (
    AGGREGATE_NAMES,
    LOCAL_MASTER,
    Project,
    await_decided,
    bank_command,
    counter_increments,
)
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def attempts(project: Project, name: str) -> set[int]:
    """Return the attempts in the committed claims."""
    claims = offsets.committed_offsets_now(
        project.connection, Topics(name, project.prefix), range(4)
    ).values()
    return {claim.attempt for offset in claims if (claim := parse_claim(offset.metadata))}


def test_lost_task_and_takeover_decide_once(project: Project) -> None:
    project.cqrs("init", *AGGREGATE_NAMES)
    project.send([bank_command("Open", f"a-{n}", {"owner": "ann"}) for n in range(50)])
    project.send(counter_increments(50))
    with project.running("run", *AGGREGATE_NAMES, *LOCAL_MASTER) as first:
        await_decided(project, 50)
        os.kill(python_workers(process_tree(first.pid))[0], signal.SIGKILL)
        project.send([bank_command("Deposit", f"a-{n}", {"amount": 1}) for n in range(50)])
        project.send(counter_increments(50))
        await_decided(project, 100)
        with project.running("run", *AGGREGATE_NAMES, *LOCAL_MASTER) as second:
            _, output = first.communicate(timeout=90)
            assert first.returncode == 6 and "took over these topics" in output
            assert "a task was lost" in output
            project.send([bank_command("Withdraw", f"a-{n}", {"amount": 1}) for n in range(50)])
            project.send(counter_increments(50))
            await_decided(project, 150)
            pids = process_tree(second.pid)
            second.send_signal(signal.SIGTERM)
            second.communicate(timeout=60)
            assert second.returncode == 143
    assert [attempts(project, name) for name in AGGREGATE_NAMES] == [{TERMINAL}, {TERMINAL}]
    eventually(lambda: not living_processes(pids))


def test_orphaned_owners_end_by_themselves(project: Project) -> None:
    project.cqrs("init", "counter")
    project.send(counter_increments(20))
    with project.running("run", "counter", *LOCAL_MASTER) as run:
        await_decided(project, 20, ["counter"])
        workers = python_workers(process_tree(run.pid))
        os.kill(parent_of(workers[0]), signal.SIGKILL)  # PySpark's daemon
        eventually(lambda: not living_processes(workers), within=60)
        project.send(counter_increments(20))
        await_decided(project, 40, ["counter"])  # by new owners, because their task was submitted again
        pids = process_tree(run.pid)
        workers = python_workers(pids)
        for pid in pids - set(workers):
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: not living_processes(pids), within=60)


def test_terminal_shows_progress_until_interrupted(project: Project) -> None:
    project.cqrs("init", "counter")
    project.send(counter_increments(20))
    cqrs = str(Path(sys.executable).with_name("cqrs"))
    terminal = pexpect.spawn(
        cqrs,
        ["run", "counter", *LOCAL_MASTER],
        cwd=project.folder,
        env={**project.environment, "TERM": "xterm"},
        dimensions=(24, 160),
        encoding="utf-8",
        use_poll=True,  # a worker of the tests may have many files open
        timeout=90,
    )
    try:
        terminal.expect(r"commands/s · lag 0 · accepted 20 · rejected 0 · duplicate 0 · failed 0")
        pids = process_tree(terminal.pid)
        terminal.sendintr()
        terminal.expect(r"stopped after .* s: 20 commands decided within .* s: 20 accepted.*; 20 events")
        terminal.expect(pexpect.EOF)
        terminal.wait()
        assert terminal.exitstatus == 130
    finally:
        terminal.close(force=True)
    assert attempts(project, "counter") == {TERMINAL}
    eventually(lambda: not living_processes(pids))


def test_service_streams_and_gets_ready(project: Project) -> None:
    """The run reports over HTTP and as JSON Lines, until SIGTERM."""
    project.cqrs("init", "counter")
    project.send(counter_increments(20))
    with project.running("run", "counter", *LOCAL_MASTER, "--metrics-address", "0", "-o", "json") as run:
        assert run.stdout is not None
        lines = map(json.loads, iter(run.stdout.readline, ""))
        url = next(match[0] for line in lines if (match := re.search(r"http://127\.0\.0\.1:\d+", str(line))))
        eventually(lambda: get(f"{url}/readyz")[0] == 200, within=90)
        assert get(f"{url}/healthz")[0] == 200
        await_decided(project, 20, ["counter"])
        metric = 'cqrs_command_latency_seconds_count{aggregate="counter",partition="%d"}'
        eventually(lambda: sum(sample(url, metric % number) for number in range(4)) == 20)
        progress = (line for line in lines if line["kind"] == "progress")
        assert next(line for line in progress if line["commands"] == 20 and not line["waiting"])["lag"] == 0
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (128 + signal.SIGTERM, "")
    end = json.loads(out.splitlines()[-1])
    assert (end["kind"], end["how"], end["accepted"]) == ("end", "stopped", 20)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def sample(url: str, name: str) -> float:
    """Return a sample of the metrics, or 0 if it is missing."""
    samples = [line for line in get(f"{url}/metrics")[1].splitlines() if line.startswith(f"{name} ")]
    return float(samples[0].rpartition(" ")[2]) if samples else 0.0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["run", "counter"], 3, "cqrs init counter"),
        (["run", "countr"], 2, "did you mean counter?"),
        (["run", "counter", "--fail", "counter:0"], 2, "is not a position in a topic"),
        (["run", "-b", "127.0.0.1:1", "counter"], 4, "127.0.0.1:1"),
        (["run", "counter", "--state-dir", "/proc/nowhere"], 3, ""),
    ],
)
def test_failed_start_prints_one_line(
    project: Project, arguments: list[str], status: int, message: str
) -> None:
    if "--state-dir" in arguments:
        project.cqrs("init", "counter")
    process = project.start(*arguments)
    out, err = process.communicate(timeout=90)
    assert (process.returncode, out) == (status, "")
    assert " error: " in err.splitlines()[-1] and message in err
    assert "Traceback" not in err


def test_unknown_failpoint_is_refused(project: Project) -> None:
    process = project.start("run", "counter", CQRS_FAILPOINT="nowhere:1:kill")
    _, err = process.communicate(timeout=90)
    assert process.returncode == 3
    assert re.match(
        rf"\S+Z error: CQRS_FAILPOINT: no point 'nowhere'; known: {re.escape(', '.join(POINTS))}", err
    )
