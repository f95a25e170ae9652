"""A change of the code that no test has noticed, and the reasons why no test needs to."""

from collections.abc import Callable
from typing import NamedTuple


class Change(NamedTuple):
    """The lines before and after a change, and the smallest differing part."""

    line: str
    became: str
    old: str
    new: str


class ChangeClass(NamedTuple):
    """Changes that are equivalent in every module."""

    why: str
    holds: Callable[[Change], bool]


class Explanation(NamedTuple):
    """Changes in a module after which a line has one of these texts, or one of these lines is `gone`."""

    module: str
    why: str
    texts: tuple[str, ...]
    gone: tuple[str, ...] = ()
