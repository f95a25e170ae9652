"""librdkafka's own messages: silent unless a handler is added. Relevant errors are returned by calls as well."""

import logging
import threading
import time

from confluent_kafka import Producer

LIBRDKAFKA_LOG = logging.getLogger("cqrs.librdkafka")
LIBRDKAFKA_LOG.addHandler(logging.NullHandler())
LIBRDKAFKA_LOG.propagate = False


def until_sent(producer: Producer, request: str, within: float) -> None:
    """Return as soon as a request of this name is sent, mostly before its reply is read, or after `within` seconds.

    The producer needs `debug=protocol`. Used by failpoints.
    """
    sent = _Watcher(f"Sent {request}")
    LIBRDKAFKA_LOG.addHandler(sent)
    LIBRDKAFKA_LOG.setLevel(logging.DEBUG)
    deadline = time.monotonic() + within
    try:
        while not sent.seen and time.monotonic() < deadline:
            producer.poll(0.05)  # returns with each line of the log
    finally:
        LIBRDKAFKA_LOG.setLevel(logging.NOTSET)
        LIBRDKAFKA_LOG.removeHandler(sent)


class _Watcher(logging.Handler):
    """Notices a text in the log of a client that this thread polls."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen = False
        self._text, self._thread = text, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen = self.seen or (record.thread == self._thread and self._text in record.getMessage())
