"""Positions of commands in a verification: of its own partition, and of parent partitions."""

from msgspec import Struct

#: An offset (`17`) of the verified partition, or `partition/offset` (`"3/17"`) of a parent.
CommandPosition = int | str


def command_position(offset: int, partition: int | None) -> CommandPosition:
    """Return the position of a command. `partition`: None for the verified partition."""
    return offset if partition is None else f"{partition}/{offset}"


def parse_parent_position(position: str) -> tuple[int, int] | None:
    """Parse a parent's position `3/17` into partition and offset; None for any other text.

    The text may have at most 1,024 bytes, because Python parses no number of several thousand digits.
    """
    partition, slash, offset = position.partition("/")
    numbers = (partition, offset) if slash else ()
    if not numbers or not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    parsed = int(partition), int(offset)
    return parsed if parsed[1] < 2**63 else None


class OpenDeferral(Struct, frozen=True, array_like=True, gc=False):
    """The state of a deferred command, which follows from its outcomes and the requests to cancel or release it."""

    due: int | None  # ms
    attempt: int  # how often `decide` has deferred the command
    document_digest: bytes | None = None  # of the command; None if its record was deleted
    cancelled: bool = False
    released: bool = False  # True: released after its last deferral
