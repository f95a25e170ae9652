"""The identity of the commands that an operator's action selects, by which a preview and its action are compared."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from cqrs_cli.client.queries.dead_letters import FailedCommand
from cqrs_cli.core.deferral.entry import Deferral

if TYPE_CHECKING:
    from hashlib import _Hash

#: Hexadecimal digits of a digest.
_DIGITS = 32


class LetterDigest:
    """The number and the digest of dead letters, and their last offset in each partition.

    The letters of a partition are added by offset. The digest does not depend on the order of the partitions.
    """

    def __init__(self) -> None:
        self.count = 0
        self._last_offsets: dict[int, int] = {}  # by partition
        self._hashes: dict[int, _Hash] = {}  # by partition

    def add(self, letter: FailedCommand) -> None:
        """Add a letter."""
        self.count += 1
        self._last_offsets[letter.partition] = letter.offset
        partition_hash = self._hashes.setdefault(letter.partition, sha256())
        partition_hash.update(msgspec.json.encode((letter.offset, letter.record.timestamp, letter.id)))

    @property
    def text(self) -> str:
        """The digest."""
        return _digest((partition, own_hash.hexdigest()) for partition, own_hash in self._hashes.items())

    def without_later(self, letters: Iterable[FailedCommand]) -> Iterator[FailedCommand]:
        """Yield the letters that do not come after the last added letter of their partition."""
        return (letter for letter in letters if letter.offset <= self._last_offsets.get(letter.partition, -1))


def letter_digest(letters: Iterable[FailedCommand]) -> LetterDigest:
    """Return the digest of dead letters."""
    digest = LetterDigest()
    for letter in letters:
        digest.add(letter)
    return digest


def deferral_digest(deferrals: Iterable[Deferral]) -> str:
    """Return the digest of deferred commands."""
    return _digest((entry.subject, entry.id, entry.key) for entry in deferrals)


def _digest(identities: Iterable[tuple[object, ...]]) -> str:
    return sha256(msgspec.json.encode(sorted(identities))).hexdigest()[:_DIGITS]
