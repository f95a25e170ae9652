"""Run the mutants of mutmut, each in a fork of one process that has collected the tests.

`mutmut run` starts pytest for each mutant, which takes many times as long. mutmut creates the mutants, and finds the
tests that reach each function. The results are stored with mutmut's own results.

`python -m tests.mutations.runner [PATTERN…]`, in the folder `mutants`, runs the mutants without a result, or the
mutants whose names match. Explained mutants run only when they are named. The time of a mutant does not advance while
its process group is stopped.
"""

import fnmatch
import gc
import io
import json
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.mutations.forks import LOOK, Fork, TimedTest
from tests.mutations.survivors import (
    SKIPPED,
    UNNOTICED,
    exit_codes_by_file,
    explanation_of,
    survivors_in_file,
)

#: Number of concurrent mutants.
_MAX_FORKS = 2

#: A test that takes longer than `_SLOW` seconds draws at most `_EXAMPLES` examples: the effect of a mutant shows soon,
#: or in another test.
_SLOW, _EXAMPLES = 0.5, 20

#: hypothesis keeps the settings of a test here.
_SETTINGS_ATTRIBUTE = "_hypothesis_internal_use_settings"

#: mutmut's exit code for a function that no test reaches.
_NO_TESTS_CODE = 33


class Mutants:
    """A pytest plugin that runs mutants in place of the collected tests."""

    def __init__(self, patterns: Sequence[str]) -> None:
        stats = json.loads(Path("mutmut-stats.json").read_text(encoding="utf-8"))
        self._reaching: dict[str, list[str]] = stats["tests_by_mangled_function_name"]
        self._seconds: dict[str, float] = stats["duration_by_test"]
        self._tests: dict[str, TimedTest] = {}
        self._noticing: defaultdict[str, Counter[str]] = defaultdict(Counter)  # tests, by function
        self._forks: list[Fork] = []
        self._files: dict[str, Path] = {}
        self._explained: list[str] = []
        for file, codes in exit_codes_by_file(Path()):
            names = [
                name for name, code in codes.items() if (_fits(name, patterns) if patterns else code is None)
            ]
            self._files |= dict.fromkeys(names, file.with_suffix(".py.meta"))
            if not patterns:
                self._explained += [
                    change.name for change in survivors_in_file(file, names) if explanation_of(change)
                ]
        self.codes: Counter[int] = Counter()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            if item.nodeid in self._seconds:  # otherwise it is newer than mutmut's data
                self._tests[item.nodeid] = TimedTest(item, self._seconds[item.nodeid])
        for test in self._tests.values():
            if test.seconds > _SLOW and isinstance(test.item, pytest.Function):
                _limit_examples(test.item.function)
        gc.freeze()
        if self._run_unchanged():
            pytest.exit("a test fails without a mutant", 1)
        for name in self._explained:
            self._store_result(name, SKIPPED, 0)
        mutants = sorted(
            self._files.keys() - self._explained,
            key=lambda name: sum(test.seconds for test in self._tests_for(name)),
        )
        try:
            for number, name in enumerate(mutants, 1):
                if tests := self._tests_for(name):
                    self._forks.append(Fork(name, tests))
                else:
                    self._store_result(name, _NO_TESTS_CODE, 0)
                self._wait_for_forks(_MAX_FORKS - 1)
                if number % 100 == 0:
                    print(f"{number} of {len(mutants)} mutants", file=sys.stderr)
            self._wait_for_forks(0)
        finally:
            for fork in self._forks:
                fork.kill()
        return True

    def _run_unchanged(self) -> int:
        fork = Fork("", list(self._tests.values()))
        while (code := fork.look()) is None:
            time.sleep(LOOK)
        print(fork.clear(), end="", file=sys.stderr)
        return code

    def _tests_for(self, mutant: str) -> list[TimedTest]:
        """Return the tests that reach a mutant. Tests that noticed other mutants of its function come first."""
        function = _function(mutant)
        *folders, module, _ = function.split(".")[1:]
        own, noticing = "/".join(["tests", *folders, f"test_{module}"]), self._noticing[function]
        names = [name for name in self._reaching.get(function, ()) if name in self._tests]
        names.sort(key=lambda name: (-noticing[name], not name.startswith(own), self._seconds[name]))
        return [self._tests[name] for name in names]

    def _wait_for_forks(self, max_forks: int) -> None:
        """Wait until at most `most` forks run."""
        while len(self._forks) > max_forks:
            time.sleep(LOOK)
            for fork in [*self._forks]:
                if (code := fork.look()) is not None:
                    self._forks.remove(fork)
                    self._noticing[_function(fork.mutant)][fork.clear()] += 1
                    self._store_result(fork.mutant, code, fork.took)

    def _store_result(self, mutant: str, code: int, took: float) -> None:
        file = self._files[mutant]
        document = json.loads(file.read_text(encoding="utf-8"))
        document["exit_code_by_key"][mutant], document["durations_by_key"][mutant] = code, took
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps(document, indent=4), encoding="utf-8")
        temporary.replace(file)
        self.codes[code] += 1
        if code in UNNOTICED:
            print(f"not noticed: {mutant}", file=sys.stderr)


def _limit_examples(function: Any) -> None:
    from hypothesis import settings  # pytest must import hypothesis first

    own: settings | None = getattr(function, _SETTINGS_ATTRIBUTE, None)
    if own is not None and own.max_examples > _EXAMPLES:
        setattr(function, _SETTINGS_ATTRIBUTE, settings(own, max_examples=_EXAMPLES))


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _function(mutant: str) -> str:
    return mutant.partition("__mutmut_")[0]


def main(patterns: Sequence[str]) -> int:
    """Run the mutants. Return 0 unless the tests could not be collected, or a test fails without a mutant."""
    options = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    arguments = [*options["pytest_add_cli_args_test_selection"], *options["pytest_add_cli_args"]]
    mutants, output = Mutants(patterns), io.StringIO()
    with redirect_stdout(output):  # the output of a mutant's tests is not needed
        status = pytest.main(["-q", *arguments], plugins=[mutants])
    if status:
        print(output.getvalue())
    print(*(f"{count} with {code}" for code, count in mutants.codes.most_common()), sep=", ", file=sys.stderr)
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
