"""The changes that no test has to notice: in a class, by what was changed, or one by one."""

import re
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
    """Changes in a module after which a line has one of these texts."""

    module: str
    why: str
    texts: tuple[str, ...]


def _is_wording(change: Change) -> bool:
    """True if the change is within one literal that is a sentence, or part of one."""
    literals = zip(*(re.findall(r'"[^"]*"', line) for line in (change.line, change.became)), strict=False)
    changed = [(was, now) for was, now in literals if was != now]
    return len(changed) == 1 and all(
        re.search("[a-z]", was) and " " in was and now.replace("XX", "").lower() == was.lower()
        for was, now in changed
    )


def _is_cut(change: Change) -> bool:
    if not change.old.isdigit() or change.new != str(int(change.old) + 1):
        return False
    return bool(re.search(rf"\{{[^{{}}]*\[:{change.old}\][^{{}}]*\}}", change.line))


def _is_zip(change: Change) -> bool:
    return "strict=" in change.line and (change.old, change.new) in _ZIPS


_ZIPS = {
    (old, new) for old in ("True", "False", "strict=True", "strict=False") for new in ("None", "False", "")
}

CLASSES = (
    Class(
        "the case or the frame of words for people: tests pin the part that says what happened", _is_wording
    ),
    Class("how much of somebody's text a message quotes", _is_cut),
    Class("`strict` of a zip whose arguments have one length: an assertion that never fails", _is_zip),
)

EXPLAINED: tuple[Explained, ...] = ()
