"""Measure the suite: wall and processor time per test file (`pytest --times`).

A sampler in the main process reads `/proc` five times a second. Each process of the test run is recognised by an
environment variable that it inherits, and its processor time is booked on the test that started it. The shared broker
serves all tests and has a row of its own; the pytest workers and their Spark session are booked on the file that runs.
"""

import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import pytest

#: Inherited by all processes of a test run that is measured; names the folder where workers write the current file.
FOLDER = "CQRS_TEST_TIMES"

#: Seconds after its start in which a process starts up, by kind: measured on two cores with nothing else running.
START_UP = {"java": 4.0, "python": 1.0, "other": 0.0}

_INTERVAL = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")
_SHARED_BROKER = "(the shared broker)"


class _Process(NamedTuple):
    """A snapshot of a process."""

    started: int
    parent: int
    seconds: float


@dataclass
class Row:
    """The times of a test file, in seconds."""

    wall: float = 0.0
    jvm_start: float = 0.0
    python_start: float = 0.0
    setup: float = 0.0
    work: float = 0.0
    tests: int = 0
    processes: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    @property
    def processor(self) -> float:
        return self.jvm_start + self.python_start + self.work

    @property
    def waiting(self) -> float:
        """Wall time in which neither the tests nor their processes used a processor."""
        return max(0.0, self.wall - self.processor)


class Sampler:
    """Books the processor time of all processes of the run on test files, until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.rows: dict[str, Row] = defaultdict(Row)
        self._variable = f"{FOLDER}={folder}\0".encode()
        self._folder = folder
        self._owners: dict[tuple[int, int], tuple[str, str | None] | None] = {}
        self._booked_seconds: dict[tuple[int, int], float] = {}
        self._start_times: dict[tuple[int, int], float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="times", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL):
            self._sample()
        self._sample()

    def _sample(self) -> None:
        current = {int(path.name): path.read_text() for path in self._folder.iterdir()}
        for pid, process in _processes():
            key = (pid, process.started)
            if key not in self._owners:
                self._owners[key] = self._owner(pid, process.parent, current)
                self._booked_seconds[key] = 0.0
                self._start_times[key] = monotonic()
            owner = self._owners[key]
            used = process.seconds - self._booked_seconds[key]
            if owner is None or used <= 0:
                continue
            self._booked_seconds[key] = process.seconds
            kind, file = owner
            self._book(
                self.rows[file or current.get(pid) or current.get(process.parent, "(start)")], kind, key, used
            )

    def _owner(self, pid: int, parent: int, current: dict[int, str]) -> tuple[str, str | None] | None:
        """Return the kind and the test file of a process.

        The file is None for a process that serves all files. The result is None for a process of another program.
        """
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            folder = str(Path(f"/proc/{pid}/cwd").readlink())
        except OSError:
            return None
        if self._variable not in environment:
            return None
        program = command.partition(b"\0")[0].rpartition(b"/")[2]
        kind = "java" if program == b"java" else "python" if b"python" in program else "other"
        if b"kafka.Kafka" in command and folder.startswith(os.environ.get("CQRS_TEST_KAFKA_ROOT", "-")):
            return kind, _SHARED_BROKER
        if pid in current or (parent in current and b"SparkSubmit" in command):
            return kind, None
        started_by = environment.partition(b"\0PYTEST_CURRENT_TEST=")[2].partition(b"\0")[0]
        file = started_by.partition(b"::")[0].decode() or None
        if file is not None:
            self.rows[file].processes[kind] += 1
        return kind, file

    def _book(self, row: Row, kind: str, key: tuple[int, int], used: float) -> None:
        if monotonic() - self._start_times[key] > START_UP[kind] or kind == "other":
            row.work += used
        elif kind == "java":
            row.jvm_start += used
        else:
            row.python_start += used


def _processes() -> Iterator[tuple[int, _Process]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        yield (
            int(folder.name),
            _Process(int(fields[19]), int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICKS),
        )


class TimesPlugin:
    """Hooks of the main process, which collect wall times and print the table."""

    def __init__(self, folder: Path) -> None:
        self._sampler = Sampler(folder)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        row = self._sampler.rows[report.nodeid.partition("::")[0]]
        row.wall += report.duration
        if report.when == "call":
            row.tests += 1
        else:
            row.setup += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        self._sampler.stop()
        terminalreporter.section("times, in seconds")
        for line in table(self._sampler.rows):
            terminalreporter.write_line(line)


def table(rows: dict[str, Row]) -> Iterator[str]:
    """Yield the lines of the table: most processor time first, and one row for all files below a second."""
    yield (
        f"{'wall':>8} {'fixtures':>8} {'waiting':>8} {'processor':>9} {'JVM start':>9} {'Python start':>12}"
        f" {'work':>8} {'JVMs':>5} {'Pythons':>7} {'tests':>5}  file"
    )
    small, total = Row(), Row()
    for file, row in sorted(rows.items(), key=lambda item: -item[1].processor):
        _add(total, row)
        if row.wall < 1 and row.processor < 1:
            _add(small, row)
        else:
            yield _line(row, file)
    yield _line(small, "(files below a second)")
    yield _line(total, "(all)")


def _add(total: Row, row: Row) -> None:
    for name in ("wall", "jvm_start", "python_start", "setup", "work", "tests"):
        setattr(total, name, getattr(total, name) + getattr(row, name))
    for kind, count in row.processes.items():
        total.processes[kind] += count


def _line(row: Row, file: str) -> str:
    return (
        f"{row.wall:8.1f} {row.setup:8.1f} {row.waiting:8.1f} {row.processor:9.1f} {row.jvm_start:9.1f}"
        f" {row.python_start:12.1f} {row.work:8.1f} {row.processes['java']:5} {row.processes['python']:7}"
        f" {row.tests:5}  {file}"
    )


class _FileRecorder:
    """Records in each worker which file runs."""

    def __init__(self, folder: Path) -> None:
        self._record_file, self._file = folder / str(os.getpid()), ""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if (file := nodeid.partition("::")[0]) != self._file:
            self._file = file
            self._record_file.write_text(file)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", action="store_true", help="print wall and processor time of each test file")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--times"):
        return
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        options = os.environ.get("PYTEST_ADDOPTS", "")
        os.environ["PYTEST_ADDOPTS"] = options.replace("--times", "")  # not for a pytest that a test starts
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="cqrs-times-")
        config.pluginmanager.register(TimesPlugin(Path(os.environ[FOLDER])))
    config.pluginmanager.register(_FileRecorder(Path(os.environ[FOLDER])))
