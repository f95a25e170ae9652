"""`Later`, which `decide` raises to defer a command, and the time of the next attempt."""

from datetime import timedelta
from hashlib import blake2b

from cqrs_cli.core.deferral.entry import MAX_TIMESTAMP

#: The maximal delay that doubling gives, ms. A longer `after` is not shortened.
MAX_RETRY_DELAY = 3_600_000

#: The jitter, as a fraction of the delay: it spreads commands that were deferred at the same time.
_JITTER = 0.1

_MILLISECOND = timedelta(milliseconds=1)


class Later(Exception):
    """Raised by `decide` to defer the command: `decide` is called again `after` a delay.

    The delay doubles with each attempt, up to an hour, or to `after` if `after` is longer. `reason` is for people.
    """

    def __init__(self, after: timedelta = timedelta(seconds=1), reason: str = "") -> None:
        if not isinstance(after, timedelta):
            raise TypeError(f"Later: after must be a timedelta, found {after!r:.100}")
        if after <= timedelta(0):
            raise ValueError(f"Later: after must be greater than zero, found {after}")
        super().__init__(reason)
        self.after = after
        self.reason = reason


def next_attempt_time(after: timedelta, attempt: int, command_id: str, timestamp: int) -> int:
    """Return the time of the next attempt, ms. `timestamp`: of the record, ms. `attempt` counts from 1.

    Every owner computes the same time: the jitter is a hash of id and attempt.
    """
    base = max(1, after // _MILLISECOND)
    delay = min(base << min(attempt - 1, 40), max(base, MAX_RETRY_DELAY))
    digest = blake2b(f"{command_id}/{attempt}".encode(errors="replace"), digest_size=4).digest()
    jitter = int(delay * _JITTER * int.from_bytes(digest, "big") / 2**32)
    return min(timestamp + delay + jitter, MAX_TIMESTAMP)
