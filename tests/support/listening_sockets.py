"""The sockets on which a process listens, from /proc (Linux)."""

import ipaddress
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_LISTEN = "0A"


def listening_sockets(pid: int) -> dict[int, Address]:
    """Return port → address of every listening TCP socket of the process; empty if it has ended."""
    inodes = {match[1] for target in _targets(pid) if (match := re.fullmatch(r"socket:\[(\d+)\]", target))}
    addresses = {}
    for table in ("tcp", "tcp6"):
        for line in _lines(Path(f"/proc/{pid}/net/{table}")):
            _, local, _, state, *rest = line.split()
            if state == _LISTEN and rest[5] in inodes:
                address, port = local.split(":")
                addresses[int(port, 16)] = _address(address)
    return addresses


def _targets(pid: int) -> Iterator[str]:
    try:
        links = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return
    for link in links:
        with suppress(FileNotFoundError):  # the socket was closed
            yield str(link.readlink())


def _lines(table: Path) -> list[str]:
    try:
        return table.read_text().splitlines()[1:]
    except OSError:
        return []


def _address(text: str) -> Address:
    """Parse an address of /proc. The kernel prints words of 32 bits in the machine's byte order."""
    words = struct.pack(f"={len(text) // 8}I", *(int(text[i : i + 8], 16) for i in range(0, len(text), 8)))
    if len(words) == 4:
        return ipaddress.IPv4Address(words)
    mapped = ipaddress.IPv6Address(words)
    return mapped.ipv4_mapped or mapped


def reachable_sockets(pid: int) -> dict[int, Address]:
    """Return the listening sockets that another machine could reach."""
    return {port: address for port, address in listening_sockets(pid).items() if not address.is_loopback}


def listen_on_all_interfaces() -> socket.socket:
    """Return a socket on which another machine could connect."""
    return socket.create_server(("0.0.0.0", 0))


def processes_in_folder(folder: Path) -> list[int]:
    """Return the processes whose working directory is `folder`."""
    return [int(link.parent.name) for link in Path("/proc").glob("[0-9]*/cwd") if _target(link) == folder]


def _target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except OSError:  # the process has ended
        return None
