"""Positions of commands in a verification: in the verified partition, and in its parent partitions."""

from msgspec import Struct

#: The offset of a command in the verified partition (`17`), or partition and offset in a parent (`"3/17"`).
CommandPosition = int | str


def command_position(offset: int, partition: int | None) -> CommandPosition:
    """Return the position of a command. `partition`: None for the verified partition."""
    return offset if partition is None else f"{partition}/{offset}"


def parse_parent_position(position: str) -> tuple[int, int] | None:
    """Parse a position in a parent, `3/17`, into (partition, offset); return None for any other text.

    The caller passes at most 1,024 bytes, because Python parses no number of several thousand digits.
    """
    partition, slash, offset = position.partition("/")
    numbers = (partition, offset) if slash else ()
    if not numbers or not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    parsed = int(partition), int(offset)
    return parsed if parsed[1] < 2**63 else None


class OpenDeferral(Struct, frozen=True, array_like=True, gc=False):
    """The state of a deferred command, as derived from its outcomes, cancellations and releases."""

    due: int | None  # ms since 1970
    attempt: int  # how often `decide` has deferred the command
    document_digest: bytes | None = None  # digest of the command; None if the command's record was deleted
    cancelled: bool = False
    released: bool = False  # True if the command was released after its last deferral
