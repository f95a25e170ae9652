"""Signed datagrams from tasks to their driver. They are shown, nothing is decided by them, and one may be lost."""

import hmac
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass

#: Bytes of a signature, which stands before the body.
_SIGNATURE = 32

#: The beginning of a note's body.
_NOTE = b"note:"

#: Bytes of a note: a datagram of this size passes everywhere.
_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Address:
    """The address that takes the datagrams of a job, and the key that signs them. It travels with the plan."""

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:
        return f"Address({self.host!r}, {self.port})"  # the key is a secret


def sign(body: bytes, key: bytes) -> bytes:
    """The datagram of a body."""
    return hmac.digest(key, body, "sha256") + body


def signed_body(datagram: bytes, key: bytes) -> bytes | None:
    """The body of a datagram; None if somebody else has signed it."""
    signature, body = datagram[:_SIGNATURE], datagram[_SIGNATURE:]
    return body if hmac.compare_digest(hmac.digest(key, body, "sha256"), signature) else None


def tell_driver(to: Address | None, text: str) -> None:
    """Send one note to the driver. Without an address nothing happens."""
    if to is not None:
        with closing(DatagramSender(to)) as sender:
            sender.send_body(note_body(text))


def note_body(text: str) -> bytes:
    """The body of a note's datagram."""
    return _NOTE + text.encode()[:_LONGEST]


def noted_text(body: bytes) -> str | None:
    """The note in a datagram's body; None for any other body."""
    return body.removeprefix(_NOTE).decode(errors="replace") if body.startswith(_NOTE) else None


class DatagramSender:
    """Sends datagrams to a driver. Nothing happens where that is not possible."""

    def __init__(self, to: Address, look_up: Callable[[str], str] = socket.gethostbyname) -> None:
        self._key = to.key
        self._at: tuple[str, int] | None = None
        with suppress(
            OSError
        ):  # looked up once: a name server that is slow must not hold up the task each time
            self._at = look_up(to.host), to.port
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def send_body(self, body: bytes) -> None:
        """Hand a datagram to the kernel, without waiting."""
        if self._at is not None:
            with suppress(OSError):  # the next one has the same sums
                self._socket.sendto(sign(body, self._key), self._at)

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()
