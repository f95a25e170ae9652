"""The progress of a run: without a terminal, on a terminal, and as JSON Lines."""

import json
import os
import re
import sys
from dataclasses import replace
from typing import Any

import pexpect
import pytest

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.output import PLAIN_INTERVAL
from cqrs_cli.cli.render.progress import RunDisplay, progress_line, run_result
from cqrs_cli.deciding.measures import FoldProgress
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.plan import ProcessProgress
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.runs.snapshot import Snapshot
from tests.cli.conftest import Cqrs
from tests.support import ROOT
from tests.support.progress import snapshot


def progress_lines(capfd: pytest.CaptureFixture[str], *snapshots: Snapshot) -> list[str]:
    """Return the lines for these snapshots, without their speed."""
    with RunDisplay(Cli()) as display:
        for snapshot in snapshots:
            display.show(snapshot)
    return [line.partition(" · ")[2] for line in capfd.readouterr().err.splitlines()]


def counts_text(accepted: int, lag: int = 0) -> str:
    return f"lag {lag} · accepted {accepted} · rejected 0 · duplicate 0 · failed 0"


def test_last_line_has_all_commands(capfd: pytest.CaptureFixture[str]) -> None:
    """Commands that are decided soon after a line are shown by the next line."""
    snapshots = [snapshot(1, 15, lag=5), snapshot(2, 20), *(snapshot(n, 20) for n in range(3, 60))]
    assert progress_lines(capfd, *snapshots) == [counts_text(15, lag=5), counts_text(20)]


def test_lines_have_a_minimal_interval(capfd: pytest.CaptureFixture[str]) -> None:
    snapshots = [snapshot(number, number) for number in range(1, 2 * int(PLAIN_INTERVAL) + 1)]
    assert progress_lines(capfd, *snapshots) == [counts_text(1), counts_text(1 + int(PLAIN_INTERVAL))]


def test_growing_lag_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    snapshots = [snapshot(0, 1), snapshot(PLAIN_INTERVAL, 1, lag=7)]
    assert progress_lines(capfd, *snapshots) == [counts_text(1), counts_text(1, lag=7)]


def test_idle_run_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert progress_lines(capfd, snapshot(0, 0), snapshot(PLAIN_INTERVAL, 0, lag=3)) == []


def test_lines_of_a_run_have_times(cqrs: Cqrs) -> None:
    """Lines in a pipe need their time. The user of a terminal sees when a line appears."""

    def show_then_interrupt(cli: Cli) -> None:
        with RunDisplay(cli) as display:
            display.warn("noted")
            display.show(snapshot(0, 20))
        raise KeyboardInterrupt

    result = cqrs("run", "counter", connect=show_then_interrupt)
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.fullmatch(f"{time} warning: noted\n{time} info: 0 commands/s · {counts_text(20)}\n", result.err)


def test_error_of_run_has_its_time(cqrs: Cqrs) -> None:
    def fail_to_connect(_: Cli) -> None:
        raise UnavailableError("no broker", "start one")

    output = cqrs("run", "counter", connect=fail_to_connect).err
    assert re.fullmatch(r"\d{4}-\S+Z error: no broker; start one\n", output)
    assert cqrs("status", "counter", connect=fail_to_connect).err == "error: no broker; start one\n"


def rebuilding_snapshot(time: float, folded_count: int, decided_count: int = 0) -> Snapshot:
    """Return the snapshot of two shards, of whose 30,000 records `folded_count` are folded."""
    reports = {
        Partition("counter", n): OwnerReport(
            "counter", n, 0, 0, 1, "warm", FoldProgress(10_000, folded_count // 2, 15_000)
        )
        for n in range(2)
    }
    return replace(snapshot(time, decided_count), reports=reports)


def test_rebuild_is_shown_and_summed_up(capfd: pytest.CaptureFixture[str]) -> None:
    snapshots = [
        rebuilding_snapshot(0, 0),
        rebuilding_snapshot(1, 3000),
        rebuilding_snapshot(PLAIN_INTERVAL, 10_600),
        snapshot(PLAIN_INTERVAL + 1, 0),
    ]
    with RunDisplay(Cli()) as display:
        for state in snapshots:
            display.show(state)
    assert capfd.readouterr().err.splitlines() == [
        "rebuilding 2 shards from 20,000 events, 0 %",
        "rebuilding 2 shards from 20,000 events, 35 %",
        "rebuilt 2 shards from 20,000 events",
    ]


def test_rare_statuses_are_shown_if_counted() -> None:
    counts = Counts(accepted=1, unchanged=2, deferred=3, first=1000, last=67_000)
    rare_statuses = Snapshot(0.0, {Partition("counter", 0): counts})
    outcome_counts = "accepted 1 · unchanged 2 · rejected 0 · deferred 3 · duplicate 0 · failed 0"
    assert progress_line(rare_statuses, 0.0) == f"0 commands/s · lag 0 · {outcome_counts}"
    result = "6 commands decided within 66 s: 1 accepted, 2 unchanged, 3 deferred; 0 events"
    assert run_result(rare_statuses).text == result


def test_results_have_no_zeros() -> None:
    processes = ProcessProgress(0.0, {}, {}, seconds=5.66)
    text = run_result(replace(snapshot(0, 0), process_progress=processes)).text
    assert text == "0 commands decided; : at 0 of 0 records"


def test_line_begins_with_the_rebuild() -> None:
    text = progress_line(rebuilding_snapshot(0, 3000, decided_count=5), 0.0)
    assert text == f"rebuilding 2 shards from 20,000 events, 10 % · 0 commands/s · {counts_text(5)}"


def stream_lines(capfd: pytest.CaptureFixture[str], *snapshots: Snapshot, quiet: bool = False) -> list[Any]:
    """Return the JSON Lines of a stream that begins with a note."""
    cli = Cli(output="json", quiet=quiet)
    cli.streaming = True
    with RunDisplay(cli) as display:
        display.warn("noted")
        for snapshot in snapshots:
            display.show(snapshot)
    output = capfd.readouterr()
    assert output.err == ""
    return [json.loads(line) for line in output.out.splitlines()]


def test_stream_has_notes_and_progress(capfd: pytest.CaptureFixture[str]) -> None:
    snapshots = [snapshot(0, 5), snapshot(0.5, 6), snapshot(1, 7, 2), snapshot(9, 7, 2)]
    note, first, second = stream_lines(capfd, *snapshots)
    assert (note["kind"], note["level"], note["text"]) == ("note", "warning", "noted")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert [(snapshot["kind"], snapshot["commands"], snapshot["lag"]) for snapshot in (first, second)] == [
        ("progress", 5, 0),
        ("progress", 7, 2),
    ]
    assert second["aggregates"]["counter"]["accepted"] == 7


def test_stream_reports_rebuilding(capfd: pytest.CaptureFixture[str]) -> None:
    _, rebuild, rebuilt, progress = stream_lines(capfd, rebuilding_snapshot(0, 3000), snapshot(5, 1))
    assert rebuild["rebuilding"] == {"shards": 2, "events": 20_000, "percent": 10}
    assert rebuilt["text"] == "rebuilt 2 shards from 20,000 events"
    assert progress["rebuilding"] is None


def test_stream_names_partitions_without_owner(capfd: pytest.CaptureFixture[str]) -> None:
    unowned = replace(snapshot(0, 5), unowned=(Partition("counter", 1),))
    _, without_owner, with_owner = stream_lines(capfd, unowned, snapshot(5, 5), snapshot(9, 5))
    assert (without_owner["waiting"], with_owner["waiting"]) == ({"counter:1": "no owner"}, {})


def test_quiet_stream_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert stream_lines(capfd, snapshot(0, 5), quiet=True) == []


def print_one_note(cli: Cli) -> None:
    cli.print_note("noted")


def test_run_streams_unless_once(cqrs: Cqrs) -> None:
    assert cqrs("run", "counter", "-o", "json", connect=print_one_note).lines[0]["text"] == "noted"
    result = cqrs("run", "counter", "--once", "-o", "json", connect=print_one_note)
    assert result.out == "" and "info: noted" in result.err


TERMINAL_PROGRAM = """
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.render.progress import RunDisplay
from tests.cli.render.test_progress import rebuilding_snapshot, snapshot
with RunDisplay(Cli()) as display:
    for state, note in ((rebuilding_snapshot(0, 3000), "first note"), (snapshot(1, 7), "second note")):
        display.show(state)
        input()
        display.warn(note)
    input()
"""


@pytest.mark.program
def test_notes_stay_above_live_line() -> None:
    child = pexpect.spawn(
        sys.executable,
        ["-c", TERMINAL_PROGRAM],
        cwd=str(ROOT),
        env={**os.environ, "TERM": "xterm"},
        dimensions=(24, 100),
        encoding="utf-8",
        use_poll=True,  # a worker of the tests may have many files open
        timeout=60,
        echo=False,
    )
    output = ""
    try:
        for live_text in ("rebuilding 2 shards from 20,000 events, 10 %", "accepted 7", "accepted 7"):
            child.expect_exact(live_text)
            output += str(child.before) + str(child.after)
            child.sendline()
        child.expect(pexpect.EOF)
        output += str(child.before)
    finally:
        child.close(force=True)
    assert [line for line in screen_lines(output) if line] == [
        "first note",
        "rebuilt 2 shards from 20,000 events",
        "second note",
    ]


def screen_lines(output: str) -> list[str]:
    """Return the lines that a terminal finally shows."""
    lines, row, column = [""], 0, 0
    for part in re.findall(r"\x1b\[[?\d;]*[a-zA-Z]|.|\n", output):
        if part == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif part == "\r":
            column = 0
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part == "\x1b[1A":
            row -= 1
        elif not part.startswith("\x1b"):
            lines[row] = lines[row].ljust(column)[:column] + part + lines[row][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


def test_other_commands_have_no_times(cqrs: Cqrs) -> None:
    assert cqrs("status", "counter", connect=print_one_note).err.startswith("noted\n")
