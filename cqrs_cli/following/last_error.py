"""The last error of a process manager or a projection, which is stored with its position."""

import time
from typing import Any

from msgspec import Struct

from cqrs_cli.core.messages.outcome import truncate
from cqrs_cli.core.messages.timestamps import rfc3339

#: The maximal length of the stored message, in characters.
MAX_MESSAGE = 500


class LastError(Struct, frozen=True):
    """An error of a process manager or projection, such as
    `LastError("KeyError", "process checkout raised on order.Placed …", 250, 1765532418123)`.
    """

    type: str  # name of the exception's class
    message: str
    #: Offset of the event that failed, or the position at which the process manager or projection waits.
    offset: int
    time: int  # ms since the epoch

    def document(self) -> dict[str, Any]:
        """Return the error as JSON."""
        return {
            "type": self.type,
            "message": self.message,
            "offset": self.offset,
            "time": rfc3339(self.time),
        }


def last_error(error: BaseException, message: str, offset: int) -> LastError:
    """Return the stored form of an error with the current time. Its type is the class of `error.__cause__`, if any."""
    name = type(error.__cause__ or error).__name__
    return LastError(name, truncate(message, MAX_MESSAGE), offset, time.time_ns() // 1_000_000)
