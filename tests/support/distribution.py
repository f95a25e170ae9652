"""The distribution of tests to processes: long tests start first, and tests that share a server share a process."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

#: The tests with the run's Spark session. They share one process, and take the longest.
_SPARK_GROUP = "session"

#: Fixtures that take seconds to start and last as long as a process, by a pattern of the test files that use them. All
#: tests of such files share one process, otherwise each process would start them again.
_SHARED = {
    _SPARK_GROUP: re.compile(r'"Spark(Context|Session)"'),
    "mariadb": re.compile(r"\bmariadb_server\b"),
    "objects": re.compile(r"mark\.objects\b|\bEACH_STORE\b"),
    "secured": re.compile(r"\bimport .*\bSecuredBroker\b"),
    "wheels": re.compile(r"\bimport Machine\b"),
}

_WAITING_MARKS = {"kafka", "spark", "docker"}

#: The slow tests that take the longest: no process should begin with them when the others are about to end.
_LONGEST = (
    "tests/scenarios/cluster/",
    "tests/scenarios/containers/",
    "tests/scenarios/installs/",
    "tests/scenarios/secured/",
    "tests/mutations/",
    "tests/jobs/run/",
    "tests/following/projections/",
    "tests/recipes/",
    "tests/scenarios/crashes/",
    "tests/test_tutorial.py",
    "tests/kafka/embedded/",
)

#: Found in each file with slow tests. The tests of `DatabaseContract` are inherited.
_SLOW = re.compile(r"mark\.slow\b|DatabaseContract")


def selects_slow(expression: str) -> bool:
    """True if an expression of marks selects slow tests only."""
    return re.fullmatch(r"slow( and not \w+)*", expression) is not None


def may_be_slow(file: Path) -> bool:
    """True if a file of tests can have slow tests."""
    return _SLOW.search(file.read_text(encoding="utf-8")) is not None


def rank(item: pytest.Item) -> tuple[bool, bool, int]:
    """Return a sort key: first the longest tests, then tests that wait, because pure tests can use the CPU then."""
    marks = {mark.name for mark in item.iter_markers()}
    longest = (number for number, path in enumerate(_LONGEST) if item.nodeid.startswith(path))
    is_first = _group(item.nodeid) == _SPARK_GROUP or "docker" in marks
    return not is_first, not marks & _WAITING_MARKS, next(longest, len(_LONGEST))


def grouped(config: pytest.Config, log: object) -> Any:
    """Return the scheduler of `--dist loadgroup`.

    A file that needs a broker or a database stays in one process, and pure tests go to any free process. (The groups of
    pytest-xdist 3.8 do not work with pytest 9, because it changes the names of tests.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return Grouped(config, log)


def _group(nodeid: str) -> str:
    """Return the group of tests that share a process with a test."""
    return _file_group(nodeid.partition("::")[0]) or nodeid


def unused_rules() -> list[str]:
    """Return the shared fixtures and the long tests of this module that no test file has any more."""
    root = Path(__file__).parents[2]
    texts = {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in root.glob("tests/**/test_*.py")
    }
    fixtures = [name for name, pattern in _SHARED.items() if not any(map(pattern.search, texts.values()))]
    return fixtures + [path for path in _LONGEST if not any(file.startswith(path) for file in texts)]


@cache
def _file_group(file: str) -> str | None:
    """Return the group of a file's tests; None if each of them may run in any process."""
    text = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
    for name, pattern in _SHARED.items():
        if pattern.search(text):
            return name
    return file if re.search(r"mark\.(kafka|spark|docker|database)\b", text) else None
