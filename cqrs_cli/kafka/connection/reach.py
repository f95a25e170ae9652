"""Who listens of the bootstrap servers: told at once, with the reason, where clients would try on in silence."""

import queue
import socket
import threading
from collections.abc import Iterable

DEFAULT_PORT = 9092


class UnreachedError(Exception):
    """None of the servers takes a connection; says why the last one does not."""


def first(servers: Iterable[str], within: float) -> str:
    """The HOST:PORT that takes a connection soonest; raises `UnreachedError` if none does in so many seconds."""
    answers: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    addresses = list(servers)
    for address in addresses:
        # Daemons, since nothing else bounds how long the system takes to look up a name.
        threading.Thread(target=_try, args=(address, within, answers), daemon=True).start()
    reason = "no server named"
    for _ in addresses:
        try:
            address, reason = answers.get(timeout=within + 0.5)
        except queue.Empty:
            raise UnreachedError("the host's name is not resolved in time") from None
        if not reason:
            return address
    raise UnreachedError(reason)


def _try(address: str, within: float, answers: "queue.SimpleQueue[tuple[str, str]]") -> None:
    host, port = split(address)
    reason = ""
    try:
        socket.create_connection((host, port), timeout=within).close()
    except (socket.gaierror, UnicodeError):
        reason = f"DNS does not know {host}"
    except TimeoutError:
        reason = "connecting takes too long"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    answers.put((address, reason))


def split(server: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `HOST` or `[IPv6]:PORT`."""
    head, colon, port = server.strip().rpartition(":")
    if not colon or server.strip().endswith("]"):
        return server.strip().strip("[]"), DEFAULT_PORT
    return head.strip("[]"), int(port)
