"""The driver's end: it takes the signed datagrams of a job's tasks."""

import os
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Self

from cqrs_cli.telemetry.datagrams import Address, signed_body

_LARGEST = 65_535


class DatagramListener(ABC):
    """Listens at an address of this machine until it is closed. Use as a context manager."""

    def __init__(self, host: str) -> None:
        """`host` is where the workers reach the driver: loopback if they are on this machine."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, 0))
        except OSError:  # the name that the workers know need not be an address of this machine
            self._socket.bind(("", 0))
        self._socket.settimeout(0.2)
        self.address = Address(host, self._socket.getsockname()[1], os.urandom(32))
        self._closing = False
        self._thread = threading.Thread(target=self._listen, name="reports", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waking:
            waking.sendto(b"", self._socket.getsockname())  # it would notice by its timeout, later
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while not self._closing:
            try:
                datagram = self._socket.recv(_LARGEST)
            except TimeoutError:
                continue
            except OSError:
                return
            body = signed_body(datagram, self.address.key)
            if body is not None:
                self._take(body)

    @abstractmethod
    def _take(self, body: bytes) -> None:
        """Take in a datagram's body, in the thread that listens."""
