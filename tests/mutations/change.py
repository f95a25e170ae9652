"""A change of the code that no test has noticed, and the reasons why none has to."""

from collections.abc import Callable
from typing import NamedTuple


class Change(NamedTuple):
    """The lines as they were and as they became, and the least part that differs."""

    line: str
    became: str
    old: str
    new: str


class Class(NamedTuple):
    """Changes that are alike in every module."""

    why: str
    holds: Callable[[Change], bool]


class Explained(NamedTuple):
    """Changes in a module after which a line has one of these texts, or one of these lines is `gone`."""

    module: str
    why: str
    texts: tuple[str, ...]
    gone: tuple[str, ...] = ()


#: Reasons that come more than once.
SAME = "the same for every value that gets there"
