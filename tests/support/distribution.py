"""The distribution of tests to processes: long tests start first, and the tests of a broker share a process."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

#: The tests with the run's Spark session. They share one process, and take the longest.
_SPARK_GROUP = "session"

_WAITING_MARKS = {"kafka", "spark", "docker"}


def rank(item: pytest.Item) -> tuple[bool, bool]:
    """Return a sort key: first the longest tests, then tests that wait, because pure tests can use the CPU then."""
    marks = {mark.name for mark in item.iter_markers()}
    return _group(item.nodeid) != _SPARK_GROUP and "docker" not in marks, not marks & _WAITING_MARKS


def grouped(config: pytest.Config, log: object) -> Any:
    """Return the scheduler of `--dist loadgroup`.

    A file that needs a broker stays in one process, and pure tests go to any free process. (The groups of pytest-xdist
    3.8 do not work with pytest 9, because it changes the names of tests.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return Grouped(config, log)


def _group(nodeid: str) -> str:
    """Return the group of tests that share a process with a test, by the marks in its file."""
    file = nodeid.partition("::")[0]
    marks = _marks(file)
    if "spark" in marks:
        return _SPARK_GROUP
    return file if marks else nodeid


@cache
def _marks(file: str) -> frozenset[str]:
    text = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
    return frozenset(re.findall(r"mark\.(kafka|spark|docker|objects)\b", text))
