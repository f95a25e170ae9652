"""One finding of `cqrs doctor` as a value, and how findings are made."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from cqrs_cli.errors import CqrsError

#: The end of a hint that leads to `cqrs doctor`.
_BACK = re.compile(r"(: |^see )cqrs doctor$")

CheckStatus = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `exit_code`: the code of the failure's kind (`cqrs_cli.errors`); 0 unless it failed."""

    name: str
    status: CheckStatus
    detail: str
    hint: str = ""
    exit_code: int = 0


def ok(name: str, detail: str) -> Check:
    """All is well."""
    return Check(name, "ok", detail)


def warn(name: str, detail: str, hint: str) -> Check:
    """It works, and deserves a look."""
    return Check(name, "warn", detail, hint)


def fail(name: str, error: CqrsError) -> Check:
    """A command would end with this error. A hint that leads back to `cqrs doctor` is left out."""
    hint = _BACK.sub("", error.hint)
    if error.hint and not hint:
        hint = "the log of the broker may say why"
    return Check(name, "fail", error.message, hint, error.exit_code)


def examined(name: str, look: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """The findings of one look; an error is a finding too, so that the others still get their turn."""
    try:
        yield from look()
    except CqrsError as error:
        yield fail(name, error)
    except Exception as error:
        yield fail(
            name, CqrsError(f"{type(error).__name__}: {error}", "this is a bug of cqrs: please report it")
        )


def exit_code(checks: Iterable[Check]) -> int:
    """The exit code of the first failure; 0 when nothing failed."""
    return next((check.exit_code for check in checks if check.status == "fail"), 0)
