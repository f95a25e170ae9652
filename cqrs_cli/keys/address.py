"""The place of the ring of master keys, as a value that travels to each task. It has no key."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.keys.ring import Ring, load_ring, shown_place


class KeyRingAddress(NamedTuple):
    """A ring of master keys: `file:PATH`, relative to the project's `root`, `env:NAME` or `exec:COMMAND`."""

    place: str
    root: Path

    @property
    def file(self) -> Path | None:
        """The file of a ring that is in one."""
        kind, _, rest = self.place.partition(":")
        return self.root / rest if kind == "file" else None

    @property
    def shown(self) -> str:
        """The place for people."""
        return shown_place(self.place)


@cache
def ring_at(address: KeyRingAddress) -> Ring:
    """The ring, read once in each process; raises `ConfigurationError` as `load_ring` does."""
    return load_ring(address.place, address.root)
