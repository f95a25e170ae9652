"""A mutant in a forked process. Its parent has collected the tests."""

import mmap
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

#: Seconds between two checks of a fork.
LOOK = 0.005

#: The exit codes that mutmut keeps: a test failed, or took too long. 0 means that no test failed.
_NOTICED, _TIMEOUT = 1, 36

#: Limits of a test: a multiple of its usual time, and additional seconds of CPU time and of waiting. After the limit
#: the test gets a signal and some more seconds to end.
_TIME_FACTOR, _CPU_SECONDS, _WAIT_SECONDS, _GRACE_SECONDS = 10, 3, 20, 5

#: Bytes that a mutant may use, because a mutant may append to a list forever.
_MAX_MEMORY = 4 << 30


class TimedTest(NamedTuple):
    """A collected test, and its duration in seconds without a mutant."""

    item: pytest.Item
    seconds: float


class MutantTimeoutError(BaseException):
    """The mutant takes too long: its test ends, and cleans up."""


class Fork:
    """Runs tests as a mutant until a test fails.

    `look` must be called every `LOOK` seconds until the fork has ended.
    """

    def __init__(self, mutant: str, tests: Sequence[TimedTest]) -> None:
        self.mutant = mutant
        self.took = 0.0  # not by the clock, which continues while the process group is stopped
        self._tests = tests
        self._test_number = mmap.mmap(-1, 4)  # number of the running test, written by the fork
        self._last_number, self._since = self._test_number[:], 0.0
        self._failed = self._is_late = False
        self._folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        self._pid = os.fork()
        if not self._pid:
            code = _NOTICED
            try:
                code = self._run()
            finally:
                os._exit(code)

    def look(self) -> int | None:
        """Return the exit code once the fork has ended, and None before."""
        self.took += LOOK
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if self._test_number[:] != self._last_number:
            self._last_number, self._since = self._test_number[:], self.took
        seconds = self._tests[int.from_bytes(self._last_number, "big")].seconds
        seconds_late = self.took - self._since - _WAIT_SECONDS - _TIME_FACTOR * seconds
        if seconds_late > _GRACE_SECONDS:
            self.kill()
        elif seconds_late > 0 and not self._is_late:
            self._is_late = True
            os.kill(self._pid, signal.SIGXCPU)
        return None

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)

    def clear(self) -> str:
        """Remove the fork's files. Return the name of the test that failed, or an empty text."""
        file = self._folder / "noticed"
        test = file.read_text(encoding="utf-8") if file.exists() else ""
        shutil.rmtree(self._folder, ignore_errors=True)
        return test

    def _run(self) -> int:
        os.environ["MUTANT_UNDER_TEST"] = self.mutant
        if trampoline := sys.modules.get("mutmut.mutation.trampoline"):
            vars(trampoline)["get_mutant_under_test"] = lambda: self.mutant  # read in each call of a function
        tempfile.tempdir = os.environ["TMPDIR"] = str(self._folder)
        signal.signal(signal.SIGXCPU, self._raise_timeout)
        resource.setrlimit(resource.RLIMIT_DATA, (_MAX_MEMORY, _MAX_MEMORY))
        self._tests[0].item.config.pluginmanager.register(self)
        next_tests = [*self._tests[1:], None]
        for number, ((item, seconds), next_test) in enumerate(zip(self._tests, next_tests, strict=True)):
            self._test_number[:] = number.to_bytes(4, "big")
            limit = ceil(time.process_time() + _CPU_SECONDS + _TIME_FACTOR * seconds)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
            item.ihook.pytest_runtest_protocol(item=item, nextitem=next_test and next_test.item)
            if self._failed:
                (self._folder / "noticed").write_text(item.nodeid, encoding="utf-8")
                return _TIMEOUT if self._is_late else _NOTICED
        return 0

    def _raise_timeout(self, *_: object) -> NoReturn:
        self._is_late = True
        raise MutantTimeoutError

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed
