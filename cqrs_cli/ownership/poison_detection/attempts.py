"""The commands of a partition that are not decided normally: an operator gave them up, or attempts at them failed."""

import sys
from collections.abc import Mapping

from cqrs_cli.observer import reached

#: The number of attempts to decide a command alone, before it fails because of an error that it may not have caused.
ATTEMPTS = 3


class Attempts:
    """The commands of a partition that its owners could not decide."""

    def __init__(self, label: str, force_failed: frozenset[int] = frozenset(), worker_log: str = "") -> None:
        self.force_failed = force_failed  # offsets of commands that fail without being read
        #: Offset → the reason why the aggregate's code is not called again.
        self.poison_reasons: dict[int, str] = {}
        self._label = label
        self._log_name = worker_log or "the log of the Spark worker"
        self._reported: set[str] = set()  # locations and types of errors that were reported
        self._failed_attempts: dict[int, int] = {}  # offset → number of failed attempts at deciding it alone

    def report_errors(self, tracebacks: Mapping[str, str]) -> None:
        """Report errors of the aggregate's code, once per location and type: by a message, and a traceback in the log.

        `tracebacks` are by location and type, such as `wallet.py:12: KeyError`.
        """
        for error, traceback in tracebacks.items():
            if error not in self._reported:
                self._reported.add(error)
                reached(
                    "message",
                    text=f"{error} while deciding: such commands fail; the traceback is in {self._log_name}",
                )
                print(f"{self._label}: {traceback.rstrip()}", file=sys.stderr, flush=True)

    def force_fail(self, offset: int, reason: str) -> None:
        """Give a command the outcome `failed` without reading it."""
        self.force_failed |= {offset}
        reached(
            "message",
            text=f"{self._label} offset {offset} failed; its dead letter omits the command's bytes: {reason}",
        )

    def record_failed_alone(self, offset: int, reason: str) -> None:
        """Record that a process error interrupted the decision of a command that was decided alone."""
        attempts = self._failed_attempts[offset] = self._failed_attempts.get(offset, 0) + 1
        self.fail_if_exhausted(offset, f"{reason} (tried alone {attempts} times)", attempts)

    def fail_if_exhausted(self, offset: int, reason: str, attempts: int) -> None:
        """Give a command the outcome `failed` after `ATTEMPTS` attempts; after more attempts, without reading it."""
        if attempts > ATTEMPTS and offset not in self.force_failed:
            self.force_fail(offset, reason)
        elif attempts >= ATTEMPTS and offset not in self.poison_reasons:
            self.poison_reasons[offset] = reason
            reached("message", text=f"{self._label} offset {offset} failed: {reason}")
