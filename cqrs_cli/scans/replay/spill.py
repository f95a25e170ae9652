"""Aggregates of a replay that have to wait on disk: what is known of them, and their later events, in that order."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import IO

import msgspec

from cqrs_cli.core.personal.sealing import SECRET_BYTES, siv
from cqrs_cli.errors import ConfigurationError

#: Bytes that are written or read at once. There may be a file for each time that memory was full, some dozens.
_BUFFER = 1 << 17

#: Bytes of events that are read together.
_BYTES_TOGETHER = 1 << 20

_FRAME = Struct(">QI")  # offset, bytes of the value
_LENGTH = Struct(">I")


class WaitingState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An aggregate that waits: version, JSON of the state and the time of its last event, now and at `until`."""

    id: str
    now: tuple[int, bytes, str]
    kept: tuple[int, bytes, str] | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WaitingState).decode


class Spill:
    """The aggregates whose hash is in [low, high). The file has no name: a task that is killed leaves nothing behind.

    It is written, first the states, then the events; then it is read in that order, once.
    """

    def __init__(self, low: int, high: int, is_sealed: bool = False) -> None:
        """`is_sealed`: what is written can be read by this object alone, which holds the key in memory."""
        self.low = low
        self.high = high
        self._cipher = siv(os.urandom(SECRET_BYTES)) if is_sealed else None
        self._states = 0
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(  # noqa: SIM115  # `close` is ours
                buffering=_BUFFER, prefix="cqrs-replay-"
            )
        except OSError as error:
            raise _no_room(error) from error

    def add_state(self, state: WaitingState) -> None:
        """Keep an aggregate."""
        encoded = self._sealed(_encode(state))
        self._states += 1
        self._write(_LENGTH.pack(len(encoded)) + encoded)

    def add_event(self, offset: int, value: bytes) -> None:
        """Keep an event of one of its aggregates."""
        sealed = self._sealed(value)
        self._write(_FRAME.pack(offset, len(sealed)) + sealed)

    def states(self) -> Iterator[WaitingState]:
        """The aggregates, from the beginning of the file."""
        try:
            self._file.seek(0)  # writes the rest
        except OSError as error:
            raise _no_room(error) from error
        for _ in range(self._states):
            yield _decode(self._opened(self._read(_LENGTH.unpack(self._read(_LENGTH.size))[0])))

    def events(self) -> Iterator[tuple[list[bytes], list[int]]]:
        """The events, some at once, and their offsets; after `states`."""
        values, offsets, size = [], [], 0
        while frame := self._read(_FRAME.size):
            offset, length = _FRAME.unpack(frame)
            offsets.append(offset)
            values.append(self._opened(self._read(length)))
            size += length
            if size >= _BYTES_TOGETHER:
                yield values, offsets
                values, offsets, size = [], [], 0
        yield values, offsets

    def close(self) -> None:
        """Give the disk back. Idempotent."""
        with suppress(OSError):  # a full disk: what was not written is not wanted any more
            self._file.close()

    def _sealed(self, content: bytes) -> bytes:
        return content if self._cipher is None else self._cipher.encrypt(content, None)

    def _opened(self, content: bytes) -> bytes:
        return content if self._cipher is None else self._cipher.decrypt(content, None)

    def _write(self, content: bytes) -> None:
        try:
            self._file.write(content)
        except OSError as error:
            raise _no_room(error) from error

    def _read(self, size: int) -> bytes:
        return self._file.read(size)


def _no_room(error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"aggregates that memory has no room for cannot be kept in {tempfile.gettempdir()} ({error.strerror})",
        "make room, or name another folder in TMPDIR",
    )
