"""`cqrs run --reload`. A program replaces the run, and only logs its start and its stop."""

import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.cli.reload.files import CHECKED_CODE, STARTED_FD, check_reloaded_code
from cqrs_cli.cli.reload.loop import Reloader
from cqrs_cli.errors import CqrsError, TakenOverError
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES
from tests.support.waiting import eventually

#: Logs its start, and reports that its code is loaded unless a file `slow` exists. Ends at SIGTERM,
#: or at once with the exit code in the file `end`.
RUN_PROGRAM = """
import os, pathlib, signal, sys, time
log = pathlib.Path({log!r})
def log_line(word):
    with log.open("a") as file:
        file.write(word + "\\n")
def stop(*_):
    log_line("stopped")
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
log_line("started")
log.with_name("judged").write_text(os.environ["CQRS_RELOAD_JUDGED"])
if not log.with_name("slow").exists():
    os.write(int(os.environ["CQRS_RELOAD_STARTED_FD"]), b"1")
end = log.with_name("end")
while not end.exists():
    time.sleep(0.02)
sys.exit(int(end.read_text()))
"""


class ReloaderThread:
    """A reloader in a thread, with its notes and the log of its child."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "aggregates" / "counter.py"
        self.source.parent.mkdir()
        self.source.with_name("__init__.py").touch()
        self.text = (AGGREGATES / "counter.py").read_text()
        self.source.write_text(self.text)
        self.log, self.end = folder / "log", folder / "end"
        self.notes: list[str] = []
        self.status: int | None = None
        command = [sys.executable, "-c", RUN_PROGRAM.format(log=str(self.log))]
        self.reloader = Reloader(command, None, "aggregates", folder, self.notes.append)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.status = self.reloader.run()

    def wait_for_log(self, *lines: str) -> None:
        eventually(lambda: self.log.exists() and self.log.read_text().split() == list(lines))

    def wait_for_note(self, text: str) -> None:
        eventually(lambda: any(text in note for note in self.notes))

    def end_child(self, code: int) -> None:
        """Let the child of the reloader end with this exit code."""
        marker = self.end.with_name("ending")
        marker.write_text(str(code))
        marker.replace(self.end)

    def change(self, old: str, new: str) -> None:
        assert old in self.text
        self.source.write_text(self.text.replace(old, new))


@pytest.fixture
def reloader_thread(tmp_path: Path) -> Iterator[ReloaderThread]:
    reloader = ReloaderThread(tmp_path)
    reloader.wait_for_log("started")
    yield reloader
    if reloader.thread.is_alive():
        reloader.end_child(TakenOverError.exit_code)
        reloader.thread.join(30)
    assert not reloader.thread.is_alive()


@pytest.mark.program
def test_changed_code_starts_again(reloader_thread: ReloaderThread) -> None:
    reloader_thread.change("class Increment", "# another line\nclass Increment")
    reloader_thread.wait_for_note("changed: aggregates/counter.py; restarting")
    reloader_thread.wait_for_log("started", "stopped", "started")


@pytest.mark.program
def test_code_change_during_the_start_fails(
    reloader_thread: ReloaderThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that changes while the run starts may be loaded, although its change was not checked."""
    folder = reloader_thread.log.parent
    digest_file = folder / "judged"
    monkeypatch.setenv(
        CHECKED_CODE, eventually(lambda: digest_file.read_text() if digest_file.exists() else "")
    )
    reader, writer = os.pipe()
    monkeypatch.setenv(STARTED_FD, str(writer))
    check_reloaded_code(folder, "aggregates")
    assert os.read(reader, 2) == b"1"
    reloader_thread.source.write_text("def")
    with pytest.raises(CqrsError, match="the code changed while the run started"):
        check_reloaded_code(folder, "aggregates")
    monkeypatch.delenv(CHECKED_CODE)
    check_reloaded_code(folder, "aggregates")


@pytest.mark.program
def test_broken_code_keeps_the_run(reloader_thread: ReloaderThread) -> None:
    reloader_thread.source.write_text("def")
    reloader_thread.wait_for_note(
        "changed: aggregates/counter.py; not reloaded, the run continues with the previous code"
    )
    reloader_thread.wait_for_note("SyntaxError")
    reloader_thread.wait_for_log("started")
    reloader_thread.source.write_text(reloader_thread.text)
    reloader_thread.wait_for_note("the files match the running code again")
    reloader_thread.wait_for_log("started")


@pytest.mark.program
def test_broken_code_during_a_start_waits(reloader_thread: ReloaderThread) -> None:
    slow_start = reloader_thread.log.with_name("slow")
    slow_start.touch()
    reloader_thread.change("class Increment", "# another line\nclass Increment")
    reloader_thread.wait_for_log("started", "stopped", "started")
    reloader_thread.source.write_text("def")
    reloader_thread.wait_for_note("the run had not loaded its code yet; it starts once the code is accepted")
    reloader_thread.wait_for_log("started", "stopped", "started", "stopped")
    slow_start.unlink()
    reloader_thread.source.write_text(reloader_thread.text)
    reloader_thread.wait_for_log("started", "stopped", "started", "stopped", "started")


@pytest.mark.program
def test_errors_of_aggregates_name_the_aggregate(reloader_thread: ReloaderThread) -> None:
    """The aggregate is named, even if a process manager imports it and fails too."""
    process = reloader_thread.log.parent / "processes" / "counting.py"
    process.parent.mkdir()
    process.write_text("import aggregates.counter\n")
    reloader_thread.source.write_text("def")
    reloader_thread.wait_for_note("correct the aggregate")


@pytest.mark.program
def test_changed_evolve_needs_a_revision(reloader_thread: ReloaderThread) -> None:
    reloader_thread.change("counter.value + by", "counter.value + 2 * by")
    reloader_thread.wait_for_note("not reloaded")
    reloader_thread.wait_for_note("raise the revision: Decider(…, revision=2)")
    reloader_thread.wait_for_log("started")


@pytest.mark.program
def test_an_ended_run_waits_for_changes(reloader_thread: ReloaderThread) -> None:
    reloader_thread.end_child(3)
    reloader_thread.wait_for_note("the run ended with 3; it starts again when a file changes")
    reloader_thread.end.unlink()
    reloader_thread.change("class Increment", "# corrected\nclass Increment")
    reloader_thread.wait_for_log("started", "started")


@pytest.mark.program
def test_a_newer_run_ends_the_reloader(reloader_thread: ReloaderThread) -> None:
    reloader_thread.end_child(6)
    eventually(lambda: reloader_thread.status == TakenOverError.exit_code)
    assert reloader_thread.notes == []  # the run itself reports the takeover


def test_lines_of_the_reloader_have_times(cqrs: Cqrs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines have times like the run's lines, because both go into one log."""

    def run(reloader: Reloader) -> int:
        reloader._report("changed")
        return 0

    monkeypatch.setattr(Reloader, "run", run)
    assert re.fullmatch(r"\S+Z info: changed\n", cqrs("run", "--reload", "counter").err)


@pytest.mark.parametrize("flag", ["--once", "-o json"])
def test_reload_excludes_once_and_json(cqrs: Cqrs, flag: str) -> None:
    result = cqrs("run", "--reload", *flag.split())
    assert result.status == 2
    assert "--reload" in result.err
