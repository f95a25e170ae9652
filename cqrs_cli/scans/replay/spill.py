"""Spill files of a replay: the states of aggregates that memory cannot hold, then their later events."""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import IO

import msgspec

from cqrs_cli.codec.scratch_cipher import ScratchCipher
from cqrs_cli.errors import ConfigurationError

#: Buffer size of a spill file in bytes. It is small, because there may be dozens of spill files.
_BUFFER = 1 << 17

#: The number of bytes at which a batch of events ends.
_BATCH_BYTES = 1 << 20

_FRAME = Struct(">QI")  # before each event: its offset, and the length of its value in bytes
_LENGTH = Struct(">I")  # before each state: its length in bytes


class SpilledState(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An aggregate on disk. A snapshot is (version, JSON of the state, time of the last event)."""

    id: str
    latest: tuple[int, bytes, str]  # snapshot after all events so far
    at_until: tuple[int, bytes, str] | None = None  # snapshot after the events up to `until`


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SpilledState).decode


class Spill:
    """A file with the aggregates whose id hash is in [low, high).

    Write the states first, then the events. Then read the states once, then the events. The file has no name, so a
    killed task leaves no file.
    """

    def __init__(self, low: int, high: int, is_encrypted: bool = False) -> None:
        """`is_encrypted`: encrypt the file with a random key that exists only in memory."""
        self.low = low
        self.high = high
        self._cipher = ScratchCipher() if is_encrypted else None
        self._state_count = 0
        try:
            self._file: IO[bytes] = tempfile.TemporaryFile(  # noqa: SIM115  # `close` is ours
                buffering=_BUFFER, prefix="cqrs-replay-"
            )
        except OSError as error:
            raise _disk_error(error) from error

    def add_state(self, state: SpilledState) -> None:
        """Write an aggregate."""
        encoded = self._encrypt(_encode(state))
        self._state_count += 1
        self._write(_LENGTH.pack(len(encoded)) + encoded)

    def add_event(self, offset: int, value: bytes) -> None:
        """Write an event of one of the file's aggregates."""
        encrypted = self._encrypt(value)
        self._write(_FRAME.pack(offset, len(encrypted)) + encrypted)

    def states(self) -> Iterator[SpilledState]:
        """Yield the aggregates, from the start of the file."""
        try:
            self._file.seek(0)  # flushes the buffer
        except OSError as error:
            raise _disk_error(error) from error
        for _ in range(self._state_count):
            yield _decode(self._decrypt(self._read(_LENGTH.unpack(self._read(_LENGTH.size))[0])))

    def events(self) -> Iterator[tuple[list[bytes], list[int]]]:
        """Yield batches of events and their offsets. Call it after `states`."""
        values, offsets, size = [], [], 0
        while frame := self._read(_FRAME.size):
            offset, length = _FRAME.unpack(frame)
            offsets.append(offset)
            values.append(self._decrypt(self._read(length)))
            size += length
            if size >= _BATCH_BYTES:
                yield values, offsets
                values, offsets, size = [], [], 0
        yield values, offsets

    def close(self) -> None:
        """Delete the file. Idempotent."""
        with suppress(OSError):  # flushing to a full disk fails, but the buffered data are no longer needed
            self._file.close()

    def _encrypt(self, content: bytes) -> bytes:
        return content if self._cipher is None else self._cipher.encrypt(content)

    def _decrypt(self, content: bytes) -> bytes:
        return content if self._cipher is None else self._cipher.decrypt(content)

    def _write(self, content: bytes) -> None:
        try:
            self._file.write(content)
        except OSError as error:
            raise _disk_error(error) from error

    def _read(self, size: int) -> bytes:
        return self._file.read(size)


def _disk_error(error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"aggregates that do not fit into memory cannot be stored in {tempfile.gettempdir()} ({error.strerror})",
        "free disk space, or set TMPDIR to another folder",
    )
