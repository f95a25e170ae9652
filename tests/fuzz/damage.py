"""Valid inputs with damage: bytes flipped, cut out or doubled, and bytes inserted that break parsers."""

import base64
import gzip
import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

#: Data of other programs: Confluent's wire format, Avro's object container, Protobuf, pickle, gzip, ….
FOREIGN = {
    "Confluent wire format": b"\x00\x00\x00\x00\x2a\x02\x06foo",
    "Avro container": b'Obj\x01\x04\x16avro.schema\x1a{"type":"int"}\x00',
    "Protobuf": b"\x08\x96\x01\x12\x07testing",
    "pickle": pickle.dumps({"type": "counter.Increment"}),
    "gzip": gzip.compress(b"{}", mtime=0),
    "MessagePack": b"\x82\xa4type\xa1t\xa2id\x01",
    "Java serialisation": b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap",
    "CBOR": b"\xa2\x64type\x61t\x62id\x01",
    "UTF-16": '{"id":"1"}'.encode("utf-16"),
    "XML": b"<?xml version='1.0'?><event/>",
    "Python": b"__import__('os').system('true')",
}

#: Tokens at which parsers differ, overflow or recurse.
_TOKENS = [
    *FOREIGN.values(),
    *(b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"\xe2\x80\xa8"),
    *(
        b"\\ud800",
        b"\\u0000",
        b"\\",
        b'"',
        b"'",
        b"\n",
        b"\r",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"=",
        b"#",
        b"%",
    ),
    *(
        b"NaN",
        b"-Infinity",
        b"null",
        b"true",
        b"1e400",
        b"-0",
        b"0x1",
        b"1.0",
        b"07",
        b"9" * 5000,
        b"2" + b"0" * 400,
    ),
    *(b"[" * 5000, b'{"a":' * 5000, b'{"a":[' * 2500, b"a." * 5000, b"{a=" * 5000),
]

#: Values that a field of a JSON document does not expect.
_UNEXPECTED_VALUES: list[Any] = [
    None,
    True,
    -1,
    7.0,
    1e300,
    2**53,
    2**63,
    2**64,
    10**400,
    "",
    "\0",
    "\ud800",
    "x" * 2000,
    [],
    {},
    [[]],
]


@st.composite
def damaged_bytes(draw: st.DrawFn, valid: Sequence[bytes]) -> bytes:
    """Draw a valid input with up to four changes."""
    data = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(0, 4))):
        offset = draw(st.integers(0, len(data)))
        end = min(len(data), offset + draw(st.integers(0, 20)))
        data = data[:offset] + draw(_replacement(data, data[offset:end], valid)) + data[end:]
    return data


def _replacement(data: bytes, removed: bytes, valid: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Return a strategy for the bytes that replace `removed`."""
    return st.one_of(
        st.sampled_from(_TOKENS),
        st.binary(max_size=4),
        st.just(removed * 2),
        st.just(bytes(byte ^ 0x20 for byte in removed)),
        st.just(data),
        st.sampled_from(valid),
    )


def damaged_texts(valid: Sequence[bytes]) -> st.SearchStrategy[str]:
    """Return `damaged_bytes` as text. Like in environment variables, an invalid byte becomes a lone surrogate."""
    return damaged_bytes(valid).map(lambda data: data.decode(errors="surrogateescape"))


@st.composite
def damaged_documents(draw: st.DrawFn, valid: Sequence[dict[str, Any]]) -> bytes:
    """Draw a JSON document with some unexpected, missing or duplicate members."""
    document = dict(draw(st.sampled_from(valid)))
    names = st.sampled_from([*document, "colour"])
    unexpected = draw(st.dictionaries(names, st.sampled_from(_UNEXPECTED_VALUES), max_size=3))
    duplicates = draw(st.dictionaries(names, st.sampled_from(_UNEXPECTED_VALUES), max_size=1))
    for name in draw(st.sets(st.sampled_from(list(document)), max_size=1)):
        del document[name]
    encoded, duplicate_members = (
        json.dumps(members).encode() for members in (document | unexpected, duplicates)
    )
    return b"%b,%b" % (encoded[:-1], duplicate_members[1:]) if duplicates and len(encoded) > 2 else encoded


class _FileCreator:
    """An object that creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


def pickle_that_creates(file: Path, protocol: int = 2) -> str:
    """Return a pickle in base64 that creates `file` when it is loaded."""
    return base64.b64encode(pickle.dumps(_FileCreator(file), protocol)).decode()
