"""UUID version 7: ids that sort by the time they were made (RFC 9562, section 5.7), so that indexes keep them close."""

import random
import threading
import time

_TAIL = 74  # bits below the timestamp, version and variant aside
_random = random.SystemRandom()


class Uuid7:
    """Makes ids that rise strictly within a process (RFC 9562, section 6.2, method 2).

    Within one millisecond the random tail counts up by a random step; a clock that steps back is not followed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._milliseconds = 0
        self._tail = 0

    def __call__(self) -> str:
        with self._lock:
            now = time.time_ns() // 1_000_000
            if now > self._milliseconds:
                self._milliseconds = now
                self._tail = _random.getrandbits(_TAIL - 1)  # the top bit is left free to count into
            else:
                self._tail += 1 + random.getrandbits(32)
                if self._tail >> _TAIL:
                    self._milliseconds += 1
                    self._tail = _random.getrandbits(_TAIL - 1)
            return _text(self._milliseconds, self._tail)


def _text(milliseconds: int, tail: int) -> str:
    high, low = tail >> 62, tail & ((1 << 62) - 1)
    digits = f"{milliseconds << 80 | 7 << 76 | high << 64 | 0b10 << 62 | low:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


uuid7 = Uuid7()
