"""One finding of `cqrs doctor` as a value, and the functions that create findings."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from cqrs_cli.errors import CqrsError

#: The end of a hint that refers to `cqrs doctor`.
_DOCTOR_REFERENCE = re.compile(r"(: |^see )cqrs doctor$")

CheckStatus = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    """One finding."""

    name: str
    status: CheckStatus
    detail: str
    hint: str = ""
    exit_code: int = 0  # of the error (`cqrs_cli.errors`); 0 unless the check failed


def ok(name: str, detail: str) -> Check:
    """Return a finding without a problem."""
    return Check(name, "ok", detail)


def warn(name: str, detail: str, hint: str) -> Check:
    """Return a finding that works now but needs attention."""
    return Check(name, "warn", detail, hint)


def fail(name: str, error: CqrsError) -> Check:
    """Return a finding for an error that would end a command. A hint to run `cqrs doctor` is omitted."""
    hint = _DOCTOR_REFERENCE.sub("", error.hint)
    if error.hint and not hint:
        hint = "see the log of the broker"
    return Check(name, "fail", error.message, hint, error.exit_code)


def run_check(name: str, check: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Yield the findings of one check. An error is a finding, too, so that the other checks still run."""
    try:
        yield from check()
    except CqrsError as error:
        yield fail(name, error)
    except Exception as error:
        yield fail(
            name, CqrsError(f"{type(error).__name__}: {error}", "this is a bug of cqrs: please report it")
        )


def exit_code(checks: Iterable[Check]) -> int:
    """Return the exit code of the first failure; 0 if no check failed."""
    return next((check.exit_code for check in checks if check.status == "fail"), 0)
