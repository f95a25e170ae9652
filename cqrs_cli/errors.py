"""Everything `cqrs` raises on purpose, and the exit code each ends with.

    CqrsError                1   failed for a reason not below
    ├── UsageError           2   wrong usage; an aggregate, command or field that does not exist
    ├── ConfigurationError   3   settings, topics or folders are wrong: correct them, then try again
    ├── UnavailableError     4   broker or Java not reachable: trying again may help
    ├── ContradictionError   5   data contradicts itself or would be lost: nothing was written; needs an operator
    ├── TakenOverError       6   another instance took over these topics: do not restart automatically
    ├── RefusedError         7   `send --wait`: not accepted, unchanged or deferred, nor a duplicate of one that was
    └── NoOutcomeError       8   `send --wait`: no outcome in time; the command may still be decided

A signal ends with 128 + its number (130, 143).
"""

from collections.abc import Mapping
from typing import ClassVar


class CqrsError(Exception):
    """Base of all: `message` says what happened, `hint` what to do about it. Both are one line.

    `more` is what programs get with them, as members of the JSON document.
    """

    exit_code: ClassVar[int] = 1
    code: ClassVar[str] = "FAILED"

    def __init__(self, message: str, hint: str = "", more: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.more = dict(more or {})

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[type["CqrsError"], tuple[str, str, Mapping[str, object]]]:
        return type(self), (self.message, self.hint, self.more)


class UsageError(CqrsError):
    """The call is wrong. Trying again does not help."""

    exit_code = 2
    code = "USAGE"


class ConfigurationError(CqrsError):
    """A setting, topic or folder is wrong. Trying again helps once it is corrected."""

    exit_code = 3
    code = "CONFIGURATION"


class UnavailableError(CqrsError):
    """A broker or Java is not there. Trying again may help."""

    exit_code = 4
    code = "UNAVAILABLE"


class ContradictionError(CqrsError):
    """The log contradicts itself or what was decided. Nothing was written; the message names the way out."""

    exit_code = 5
    code = "CONTRADICTION"


class TakenOverError(CqrsError):
    """A newer run owns these topics. Trying again would take them back: do not automate it."""

    exit_code = 6
    code = "TAKEN_OVER"


class RefusedError(CqrsError):
    """A command was decided, and not as wished. Trying again with the same id gives the same answer."""

    exit_code = 7
    code = "REFUSED"


class NoOutcomeError(CqrsError):
    """No outcome within the time given; the command may still be decided. Sending it again with the same id is safe."""

    exit_code = 8
    code = "NO_OUTCOME"
