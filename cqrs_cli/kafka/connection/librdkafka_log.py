"""The logger of librdkafka's messages. It drops all messages, because librdkafka's calls return the relevant errors.
Tests and failpoints may add a handler.
"""

import logging
import threading
import time

from confluent_kafka import Producer

LIBRDKAFKA_LOG = logging.getLogger("cqrs.librdkafka")
LIBRDKAFKA_LOG.addHandler(logging.NullHandler())
LIBRDKAFKA_LOG.propagate = False


def wait_until_sent(producer: Producer, request: str, timeout: float) -> None:
    """Wait until the producer has sent a request of this name, for at most `timeout` seconds. The response has usually
    not arrived yet.

    Failpoints use this function. The producer needs `debug=protocol`.
    """
    watcher = _Watcher(f"Sent {request}")
    LIBRDKAFKA_LOG.addHandler(watcher)
    LIBRDKAFKA_LOG.setLevel(logging.DEBUG)
    deadline = time.monotonic() + timeout
    try:
        while not watcher.was_seen and time.monotonic() < deadline:
            producer.poll(0.05)  # returns with each line of the log
    finally:
        LIBRDKAFKA_LOG.setLevel(logging.NOTSET)
        LIBRDKAFKA_LOG.removeHandler(watcher)


class _Watcher(logging.Handler):
    """Sets `was_seen` when a text appears in the log of a client that this thread polls."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.was_seen = False
        self._text, self._thread = text, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        is_own_line = record.thread == self._thread and self._text in record.getMessage()
        self.was_seen = self.was_seen or is_own_line
