"""How tests are spread over several processes: the longest go first, and who shares a broker stays together."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

#: The tests with the run's Spark session: they are in one process, and the longest of all.
_SESSION = "session"

_WAITING = {"kafka", "spark", "docker"}


def rank(item: pytest.Item) -> tuple[bool, bool]:
    """The longest first, then what waits: pure tests use the processors meanwhile."""
    marks = {mark.name for mark in item.iter_markers()}
    return _group(item.nodeid) != _SESSION and "docker" not in marks, not marks & _WAITING


def grouped(config: pytest.Config, log: object) -> Any:
    """The scheduler of `--dist loadgroup`: a file that needs a broker stays in one process, and pure tests go where
    there is room.

    (The groups of pytest-xdist 3.8 do not work with pytest 9: it takes the names of tests for what they are.)
    """
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return Grouped(config, log)


def _group(nodeid: str) -> str:
    """The tests that a test shares its process with, by the marks in its file."""
    file = nodeid.partition("::")[0]
    marks = _marks(file)
    if "spark" in marks:
        return _SESSION
    return file if marks else nodeid


@cache
def _marks(file: str) -> frozenset[str]:
    text = (Path(__file__).parents[2] / file).read_text(encoding="utf-8")
    return frozenset(re.findall(r"mark\.(kafka|spark|docker|objects)\b", text))
