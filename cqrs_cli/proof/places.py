"""Commands as a proof points to them: its partition's own, and what it has from its parents."""

from msgspec import Struct

#: A command's offset; of a parent's command partition/offset.
ProvedPlace = int | str


def proved_place(offset: int, partition: int | None) -> ProvedPlace:
    """The place of a command. `partition`: if it is another one than the proof's."""
    return offset if partition is None else f"{partition}/{offset}"


def read_place(place: str) -> tuple[int, int] | None:
    """Partition and offset in a parent's place; None for any other text."""
    partition, slash, offset = place.partition("/")
    numbers = (partition, offset) if slash else ()
    if not numbers or not all(one.isascii() and one.isdigit() for one in numbers):
        return None
    return int(partition), int(offset)


class Open(Struct, frozen=True, array_like=True, gc=False):
    """A command that is deferred, as its outcomes and requests say."""

    due: int | None  # ms
    attempt: int
    document: bytes | None = None  # a digest of the command; None if its record was deleted
    cancelled: bool = False
    released: bool = False  # since it was last put off
