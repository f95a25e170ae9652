"""A payment provider on localhost, which counts the calls of each idempotency key."""

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Amounts that the provider treats in a special way.
UNAVAILABLE, REFUSED, BLOCKED = 13, 14, 15


class Provider:
    """Answers 503 to every call for `UNAVAILABLE` and to the first call for each even amount, 402 for `REFUSED`.

    A call for `BLOCKED` waits until `release` is set.
    """

    def __init__(self) -> None:
        self.url, self.calls = "", 0
        self.calls_by_amount: Counter[int] = Counter()
        self.amounts: list[int] = []  # in the order of their first calls
        self.keys: dict[int, set[str]] = defaultdict(set)
        self.release = threading.Event()
        self._lock = threading.Lock()

    def answer(self, key: str, amount: int) -> int:
        """Count a call, and return the HTTP status."""
        with self._lock:
            self.calls += 1
            self.calls_by_amount[amount] += 1
            is_first = amount not in self.keys
            if is_first:
                self.amounts.append(amount)
            self.keys[amount].add(key)
        if amount == BLOCKED:
            self.release.wait(60)
        if amount == REFUSED:
            return 402
        return 503 if amount == UNAVAILABLE or (is_first and amount % 2 == 0) else 200


@contextmanager
def running_provider() -> Iterator[Provider]:
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = provider.answer(self.headers["Idempotency-Key"], body["amount"])
            try:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except OSError:  # the caller was killed
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_port}/payments"
    try:
        yield provider
    finally:
        provider.release.set()
        server.shutdown()
        thread.join()
        server.server_close()
