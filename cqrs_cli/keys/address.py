"""The address of the keyring, as a value that is passed to each task. It contains no key."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.keys.keyring import Keyring, load_keyring, shown_address


class KeyRingAddress(NamedTuple):
    """A keyring's address: `env:NAME`, `exec:COMMAND`, or `file:PATH` with a path relative to the project's `root`."""

    address: str
    root: Path

    @property
    def file(self) -> Path | None:
        """The path of a keyring in a file, else None."""
        kind, _, location = self.address.partition(":")
        return self.root / location if kind == "file" else None

    @property
    def shown(self) -> str:
        """The address for messages, without the arguments of a command."""
        return shown_address(self.address)

    @cache  # noqa: B019  # a process has one keyring
    def load(self) -> Keyring:
        """Return the keyring, read once in each process; raises `ConfigurationError` as `load_keyring` does."""
        return load_keyring(self.address, self.root)
