"""librdkafka's own messages: silent unless a handler is added. Relevant errors are returned by calls as well."""

import logging
import threading
import time

from confluent_kafka import Producer

LIBRDKAFKA_LOG = logging.getLogger("cqrs.librdkafka")
LIBRDKAFKA_LOG.addHandler(logging.NullHandler())
LIBRDKAFKA_LOG.propagate = False


def wait_until_sent(producer: Producer, request: str, timeout: float) -> None:
    """Wait until a request of this name is sent, for at most `timeout` seconds. Mostly its reply is not read yet then.

    The producer needs `debug=protocol`. Used by failpoints.
    """
    watcher = _Watcher(f"Sent {request}")
    LIBRDKAFKA_LOG.addHandler(watcher)
    LIBRDKAFKA_LOG.setLevel(logging.DEBUG)
    deadline = time.monotonic() + timeout
    try:
        while not watcher.seen and time.monotonic() < deadline:
            producer.poll(0.05)  # returns with each line of the log
    finally:
        LIBRDKAFKA_LOG.setLevel(logging.NOTSET)
        LIBRDKAFKA_LOG.removeHandler(watcher)


class _Watcher(logging.Handler):
    """Notices a text in the log of a client that this thread polls."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen = False
        self._text, self._thread = text, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen = self.seen or (record.thread == self._thread and self._text in record.getMessage())
