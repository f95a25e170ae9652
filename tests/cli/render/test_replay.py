"""The progress of a replay, for users: on a terminal, and in a log."""

import pytest

from cqrs_cli.cli.output import PLAIN_INTERVAL, Printer, ProgressThrottle
from cqrs_cli.cli.render.replay import replaying_text
from cqrs_cli.telemetry.task_reports import JobProgress


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        (JobProgress(0, 4000, 0, 0.5), "folding counter 0%, 0 events a second"),
        (JobProgress(1000, 4000, 900, 3.0), "folding counter 25%, 300 events a second, 9 s left"),
        (JobProgress(1000, 4000, 1, 120.0), "folding counter 25%, 0 events a second, 6 min left"),
        (JobProgress(1, 4, 1, 3600.0), "folding counter 25%, 0 events a second, 3 h left"),
        (JobProgress(4000, 4000, 8, 4.0), "folding counter 100%, 2 events a second, nearly done"),
        (JobProgress(0, 0, 0, 1.0), "folding counter 0%, 0 events a second"),
    ],
)
def test_remaining_time_has_a_fitting_unit(progress: JobProgress, text: str) -> None:
    assert replaying_text("counter", progress, with_bar=False) == text


def test_terminal_gets_a_bar() -> None:
    line = replaying_text("counter", JobProgress(1, 2, 1, 1.0))
    assert line.startswith(f"folding counter {'━' * 12}{'─' * 12} 50%, ")


def test_log_lines_have_a_minimal_interval() -> None:
    seconds, messages = 0.0, list[str]()
    report = ProgressThrottle(messages.append, clock=lambda: seconds)
    for percent in ("1%", "2%", "2%", "3%", "4%"):
        seconds += PLAIN_INTERVAL / 2
        report(percent)
    seconds += PLAIN_INTERVAL
    report("4%")
    assert messages == ["2%", "3%", "4%"]


@pytest.mark.parametrize(("quiet", "stderr"), [(False, "folding …\n50%\n"), (True, "")])
def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str], quiet: bool, stderr: str) -> None:
    with Printer("json", quiet).show_spinner("folding", interval=0.0) as report:
        report("50%")
    assert capsys.readouterr() == ("", stderr)
