"""Signed datagrams from tasks to their driver, and the driver's answer that the tasks are to end.

Any datagram may be lost. So reports are repeated, the result of a task repeats its messages, and the driver answers
each report until the task has ended.
"""

import hmac
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass

#: The length of a signature (HMAC-SHA-256), which precedes the body.
_SIGNATURE_BYTES = 32

#: The prefix of a message's body.
_MESSAGE_PREFIX = b"note:"

#: The body of the driver's answer to the reports of tasks that are to end.
END = b"end"

#: The longest message in bytes: a datagram of this size passes every network.
_MAX_MESSAGE = 1000


@dataclass(frozen=True, slots=True)
class Address:
    """The address that receives the datagrams of a job, and the key that signs them. It is part of the plan."""

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:
        return f"Address({self.host!r}, {self.port})"  # the key is a secret


def signed_datagram(body: bytes, key: bytes) -> bytes:
    """Return the datagram of a body: the signature, then the body."""
    return hmac.digest(key, body, "sha256") + body


def signed_body(datagram: bytes, key: bytes) -> bytes | None:
    """Return the body of a datagram; None if the signature is invalid."""
    signature, body = datagram[:_SIGNATURE_BYTES], datagram[_SIGNATURE_BYTES:]
    return body if hmac.compare_digest(hmac.digest(key, body, "sha256"), signature) else None


def send_message(address: Address | None, text: str) -> None:
    """Send one message to the driver. Without an address nothing happens."""
    if address is not None:
        with closing(DatagramSender(address)) as sender:
            sender.send_body(encode_message(text))


def encode_message(text: str) -> bytes:
    """Return the datagram's body for a message."""
    return _MESSAGE_PREFIX + text.encode()[:_MAX_MESSAGE]


def decode_message(body: bytes) -> str | None:
    """Return the message in a datagram's body; None for any other body."""
    return (
        body.removeprefix(_MESSAGE_PREFIX).decode(errors="replace")
        if body.startswith(_MESSAGE_PREFIX)
        else None
    )


class DatagramSender:
    """Sends datagrams to a driver. All errors are ignored."""

    def __init__(self, address: Address, resolve: Callable[[str], str] = socket.gethostbyname) -> None:
        self._key = address.key
        self._address: tuple[str, int] | None = None
        with suppress(OSError):  # looked up once: a slow name server must not delay the task each time
            self._address = resolve(address.host), address.port
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def send_body(self, body: bytes) -> None:
        """Pass a datagram to the kernel, without waiting."""
        if self._address is not None:
            with suppress(OSError):  # reports contain totals, so the next datagram replaces a lost one
                self._socket.sendto(signed_datagram(body, self._key), self._address)

    def received_end(self) -> bool:
        """Return True if the driver has answered that the task is to end."""
        with suppress(OSError):  # no datagram has arrived
            while True:
                if signed_body(self._socket.recv(_SIGNATURE_BYTES + len(END) + 1), self._key) == END:
                    return True
        return False

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
