"""The errors that `cqrs` raises on purpose, each with its exit code.

    CqrsError                1   any other failure
    ├── UsageError           2   wrong usage, or an aggregate, command or field that does not exist
    ├── ConfigurationError   3   wrong settings, topics or folders: correct them, then try again
    ├── UnavailableError     4   the broker or Java is not reachable: a retry may help
    ├── ContradictionError   5   inconsistent data, or data that would be lost: nothing was written; needs an operator
    ├── TakenOverError       6   another run took over these topics: do not restart automatically
    ├── RefusedError         7   `send --wait`: the command was rejected or failed, or is a duplicate of such a command
    ├── NoOutcomeError       8   `send --wait`: no outcome in time; the command may still be decided
    └── RuleError            9   `whatif --fail-on`: the other code causes more differences than a rule allows

If a signal ends the process, the exit code is 128 + the number of the signal (130, 143).
"""

from collections.abc import Mapping
from typing import ClassVar


class CqrsError(Exception):
    """The base class. `message` names the problem and `hint` the remedy, in one line each.

    `more`: additional members of the JSON document in which programs get the error.
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
    """Wrong usage. A retry does not help."""

    exit_code = 2
    code = "USAGE"


class ConfigurationError(CqrsError):
    """A setting, topic or folder is wrong. A retry helps after a correction."""

    exit_code = 3
    code = "CONFIGURATION"


class UnavailableError(CqrsError):
    """A broker, a store or Java is not available. A retry may help."""

    exit_code = 4
    code = "UNAVAILABLE"


class PayloadUnavailableError(UnavailableError):
    """A payload is missing or altered, or the payload store does not answer. A retry may help."""


class ContradictionError(CqrsError):
    """Two records contradict each other, or data would be lost. Nothing was written; the message names the remedy."""

    exit_code = 5
    code = "CONTRADICTION"
    is_permanent = False  # True: waiting cannot help, not even until a lagging broker is in sync


class TakenOverError(CqrsError):
    """A newer run owns these topics. A retry would take them back, so never retry automatically."""

    exit_code = 6
    code = "TAKEN_OVER"


class RefusedError(CqrsError):
    """The command was rejected or failed. A rejected command gets the same outcome if it is sent again with its id."""

    exit_code = 7
    code = "REFUSED"


class NoOutcomeError(CqrsError):
    """No outcome within the timeout. The command may still be decided; it is safe to send it again with its id."""

    exit_code = 8
    code = "NO_OUTCOME"


class RuleError(CqrsError):
    """More commands or states differ than a rule of `cqrs whatif --fail-on` allows. A retry gives the same result."""

    exit_code = 9
    code = "RULE"
