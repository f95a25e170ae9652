"""Connects to all bootstrap servers at once, and finds the server that accepts a connection first."""

import queue
import socket
import threading
from collections.abc import Iterable

DEFAULT_PORT = 9092


class UnreachedError(Exception):
    """No server accepts a connection. The message is the reason for the server that failed last."""


def first_reachable(servers: Iterable[str], timeout: float) -> str:
    """Return the HOST:PORT that accepts a connection first; raises `UnreachedError` after `timeout` seconds."""
    results: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    addresses = list(servers)
    for address in addresses:
        # Daemon threads, since the system's lookup of a host name has no timeout.
        threading.Thread(target=_try_connect, args=(address, timeout, results), daemon=True).start()
    reason = "no server is configured"
    for _ in addresses:
        try:
            address, reason = results.get(timeout=timeout + 0.5)
        except queue.Empty:
            raise UnreachedError("the host name was not resolved in time") from None
        if not reason:
            return address
    raise UnreachedError(reason)


def _try_connect(address: str, timeout: float, results: "queue.SimpleQueue[tuple[str, str]]") -> None:
    host, port = split_address(address)
    reason = ""
    try:
        socket.create_connection((host, port), timeout=timeout).close()
    except (socket.gaierror, UnicodeError):
        reason = f"DNS does not know {host}"
    except TimeoutError:
        reason = "connecting takes too long"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    results.put((address, reason))


def split_address(server: str) -> tuple[str, int]:
    """Return the host and port of `HOST:PORT`, `HOST` or `[IPv6]:PORT`."""
    host, colon, port = server.strip().rpartition(":")
    if not colon or server.strip().endswith("]"):
        return server.strip().strip("[]"), DEFAULT_PORT
    return host.strip("[]"), int(port)
