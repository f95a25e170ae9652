"""`cqrs run --reload`, with a program in place of the run that only logs its start and its stop."""

import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.cli.reload.files import CHECKED_CODE, check_reloaded_code
from cqrs_cli.cli.reload.loop import Reloader
from cqrs_cli.errors import CqrsError, TakenOverError
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES
from tests.support.waiting import eventually

#: Logs its start. Ends at SIGTERM, or at once with the exit code in the file `end`.
CHILD = """
import os, pathlib, signal, sys, time
log = pathlib.Path({log!r})
def say(word):
    with log.open("a") as file:
        file.write(word + "\\n")
def stop(*_):
    say("stopped")
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
say("started")
log.with_name("judged").write_text(os.environ["CQRS_RELOAD_JUDGED"])
end = log.with_name("end")
while not end.exists():
    time.sleep(0.02)
sys.exit(int(end.read_text()))
"""


class Reloading:
    """A reloader in a thread, with its notes and the log of its child."""

    def __init__(self, folder: Path) -> None:
        self.source = folder / "aggregates" / "counter.py"
        self.source.parent.mkdir()
        self.source.with_name("__init__.py").touch()
        self.text = (AGGREGATES / "counter.py").read_text()
        self.source.write_text(self.text)
        self.log, self.end = folder / "log", folder / "end"
        self.notes: list[str] = []
        self.error: BaseException | None = None
        command = [sys.executable, "-c", CHILD.format(log=str(self.log))]
        self.reloader = Reloader(command, None, "aggregates", folder, self.notes.append)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.reloader.run()
        except BaseException as error:
            self.error = error

    def wait_for(self, *words: str) -> None:
        eventually(lambda: self.log.exists() and self.log.read_text().split() == list(words))

    def noted(self, text: str) -> None:
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
def reloading(tmp_path: Path) -> Iterator[Reloading]:
    reloading_loop = Reloading(tmp_path)
    reloading_loop.wait_for("started")
    yield reloading_loop
    if reloading_loop.thread.is_alive():
        reloading_loop.end_child(TakenOverError.exit_code)
        reloading_loop.thread.join(30)
    assert not reloading_loop.thread.is_alive()


@pytest.mark.program
def test_changed_code_starts_again(reloading: Reloading) -> None:
    reloading.change("class Increment", "# another line\nclass Increment")
    reloading.noted("changed: aggregates/counter.py; restarting")
    reloading.wait_for("started", "stopped", "started")


@pytest.mark.program
def test_a_run_knows_its_judged_code(reloading: Reloading, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes while the run starts may be loaded, although its change was not checked."""
    folder = reloading.log.parent
    judged = folder / "judged"
    monkeypatch.setenv(CHECKED_CODE, eventually(lambda: judged.read_text() if judged.exists() else ""))
    check_reloaded_code(folder, "aggregates")
    reloading.source.write_text("def")
    with pytest.raises(CqrsError, match="the code changed while the run started"):
        check_reloaded_code(folder, "aggregates")
    monkeypatch.delenv(CHECKED_CODE)
    check_reloaded_code(folder, "aggregates")


@pytest.mark.program
def test_broken_code_leaves_the_run(reloading: Reloading) -> None:
    reloading.source.write_text("def")
    reloading.noted("changed: aggregates/counter.py; not reloaded, the run continues with the previous code")
    reloading.noted("SyntaxError")
    reloading.wait_for("started")
    reloading.source.write_text(reloading.text)
    reloading.noted("the files match the running code again")
    reloading.wait_for("started")


@pytest.mark.program
def test_errors_of_aggregates_are_theirs(reloading: Reloading) -> None:
    """The aggregate is named, even if a process manager imports it and fails too."""
    process = reloading.log.parent / "processes" / "counting.py"
    process.parent.mkdir()
    process.write_text("import aggregates.counter\n")
    reloading.source.write_text("def")
    reloading.noted("correct the aggregate")


@pytest.mark.program
def test_another_meaning_needs_a_revision(reloading: Reloading) -> None:
    reloading.change("counter.value + by", "counter.value + 2 * by")
    reloading.noted("not reloaded")
    reloading.noted("raise the revision: Decider(…, revision=2)")
    reloading.wait_for("started")


@pytest.mark.program
def test_a_run_that_ended_waits(reloading: Reloading) -> None:
    reloading.end_child(3)
    reloading.noted("the run ended with 3; it starts again when a file changes")
    reloading.end.unlink()
    reloading.change("class Increment", "# corrected\nclass Increment")
    reloading.wait_for("started", "started")


@pytest.mark.program
def test_a_newer_run_ends_both(reloading: Reloading) -> None:
    reloading.end_child(6)
    eventually(lambda: reloading.error is not None)
    assert isinstance(reloading.error, TakenOverError)


def test_lines_have_their_times(cqrs: Cqrs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines have times like the run's lines, because both go into one log."""

    def run(reloader: Reloader) -> int:
        reloader._report("changed")
        return 0

    monkeypatch.setattr(Reloader, "run", run)
    assert re.fullmatch(r"\S+Z info: changed\n", cqrs("run", "--reload", "counter").err)


@pytest.mark.parametrize("flag", ["--once", "-o json"])
def test_a_reload_has_limits(cqrs: Cqrs, flag: str) -> None:
    result = cqrs("run", "--reload", *flag.split())
    assert result.status == 2
    assert "--reload" in result.err
