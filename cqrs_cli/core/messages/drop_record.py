"""The record of a drop: who deleted which dead letters. It is in the dead-letter topic, but is not a dead letter."""

import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Headers, Record

#: The headers of the record. A dead letter has more headers, even if its command has this header.
DROP_HEADERS: Headers = [("cqrs.action", b"drop")]


class DropRecord(Struct, frozen=True, kw_only=True):
    """The deleted dead letters of one partition. Their commands have offsets from `first_command` to `last_command`."""

    actor: str  # empty if unknown
    before: str  # the time of `--before`: only dead letters before it were deleted
    letters: int
    first_command: int
    last_command: int

    def encode(self) -> bytes:
        return encode_json(self)


def is_drop_record(record: Record) -> bool:
    """Return True for the record of a drop, False for a dead letter."""
    return record.headers == DROP_HEADERS


def read_drop_record(value: bytes | None) -> DropRecord:
    """Decode the value of a drop record; raises `ValueError` for any other value."""
    return msgspec.json.decode(value or b"", type=DropRecord)
