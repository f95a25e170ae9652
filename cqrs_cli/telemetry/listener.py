"""Receives the signed datagrams of a job's tasks in the driver: Spark reports on a task only when the task ends."""

import os
import socket
import threading
from contextlib import suppress
from typing import Self

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.telemetry.datagrams import END, Address, decode_message, signed_body, signed_datagram

#: The Spark property that fixes the UDP port; by default the system chooses one.
REPORTS_PORT = "spark.cqrs.reports.port"

_MAX_DATAGRAM = 65_535

#: The number of ports to try, from the chosen port on, as Spark does for its own: runs may share a machine.
_MAX_PORTS = 16


class DatagramListener:
    """Listens at an address of this machine until it is closed. Use as a context manager.

    It stores the messages of tasks. Subclasses also store reports.
    """

    def __init__(self, driver_address: str) -> None:
        """`driver_address` is the address at which the workers reach the driver, `HOST` or `HOST:PORT`. `HOST` is
        loopback if the workers are on this machine.

        Raises `ConfigurationError` if that port and the next ports are taken.
        """
        host, _, port = driver_address.partition(":")
        self._socket = _bind(host, int(port or 0))
        self._socket.settimeout(0.2)
        self.address = Address(host, self._socket.getsockname()[1], os.urandom(32))
        self._closing = self._ends_tasks = False
        self._lock = threading.Lock()
        self._new_messages: list[str] = []
        self._known_messages: set[str] = set()
        self._senders = set[tuple[str, int]]()
        self._thread = threading.Thread(target=self._listen, name="reports", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", self._socket.getsockname())  # wakes the thread before its timeout
        self._thread.join()
        self._socket.close()

    def end_tasks(self) -> None:
        """Request the end of each task: at once if it has sent a report, otherwise when it sends its first report."""
        self._ends_tasks = True
        for sender in list(self._senders):
            self._send_end(sender)

    def _send_end(self, sender: tuple[str, int]) -> None:
        with suppress(OSError):  # the next report gets another answer
            self._socket.sendto(signed_datagram(END, self.address.key), sender)

    def _listen(self) -> None:
        while not self._closing:
            try:
                datagram, sender = self._socket.recvfrom(_MAX_DATAGRAM)
            except TimeoutError:
                continue
            except OSError:
                return
            body = signed_body(datagram, self.address.key)
            if body is not None:
                self._senders.add(sender)
                if self._ends_tasks:
                    self._send_end(sender)
                self._receive(body)

    def take_new_messages(self) -> list[str]:
        """Return the messages since the last call."""
        with self._lock:
            texts, self._new_messages = self._new_messages, []
        return texts

    def add_message(self, text: str) -> None:
        """Store a message, unless the same text was stored before."""
        with self._lock:
            if text not in self._known_messages:
                self._known_messages.add(text)
                self._new_messages.append(text)

    def _receive(self, body: bytes) -> None:
        """Store a datagram's body, in the listening thread."""
        text = decode_message(body)
        if text is None:
            self._receive_report(body)
        else:
            self.add_message(text)

    def _receive_report(self, body: bytes) -> None:
        """Store the report in a datagram's body, in the listening thread."""


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket at the first free port from `port` on; at any free port for 0."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for port_number in range(port, port + _MAX_PORTS) if port else (0,):
        for address in (host, ""):  # the name that the workers know need not be an address of this machine
            with suppress(OSError, OverflowError):
                listener.bind((address, port_number))
                return listener
    listener.close()
    raise ConfigurationError(
        f"no UDP port from {port} to {port + _MAX_PORTS - 1} is free",
        f"choose another port: --conf {REPORTS_PORT}=…",
    )
