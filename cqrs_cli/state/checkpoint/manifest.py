"""The manifest of a checkpoint: what it is a copy of, how far it goes, and what proves that it is of this very log."""

import struct
import sys
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.store import Positions

#: Raised with any change of the manifest: others are refused.
FORMAT: Final = 1

MANIFEST_SUFFIX: Final = ".json"
DATA_SUFFIX: Final = ".mdb"

#: LMDB's files are as the machine has its numbers in memory.
PLATFORM: Final = f"{sys.byteorder}, {8 * struct.calcsize('P')} bits"


class Evidence(msgspec.Struct, frozen=True):
    """The last record of a log below a checkpoint's position: in another log, another record has its offset."""

    offset: int
    digest: str

    def holds(self, there: Record | None) -> bool:
        """True if the record that is at the offset now is the one from then."""
        return there is not None and self == evidence(there)


def evidence(record: Record) -> Evidence:
    """The evidence that a record gives."""
    content = encode_json([record.offset, record.timestamp, record.key, record.value])
    return Evidence(record.offset, sha256(content).hexdigest())


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One checkpoint. It is written after the data: a torn upload has none."""

    format: int = FORMAT
    written: int  # ms since the epoch
    identity: Identity
    platform: str = PLATFORM
    positions: Positions
    evidence: dict[
        str, Evidence | None
    ]  # of the events and the outcomes; None: there was no record below the position
    loss: str  # what an operator had accepted as lost, as the claim had it
    aggregates: int
    size: int  # bytes of the data
    sha256: str

    @property
    def stem(self) -> str:
        """The name without its end: in the order in which they were written."""
        return f"{self.written:015}-{self.sha256[:16]}"

    @property
    def data(self) -> str:
        """The name of its data."""
        return self.stem + DATA_SUFFIX

    def encoded(self) -> tuple[str, bytes]:
        """The manifest's name, which holds a digest of its content, and the content."""
        content = encode_json(self)
        return f"{self.stem}-{sha256(content).hexdigest()[:16]}{MANIFEST_SUFFIX}", content

    def __str__(self) -> str:
        return f"the checkpoint of {rfc3339(self.written)}"


def read_manifest(name: str, content: bytes) -> Manifest:
    """The manifest in a file; raises `ValueError` for one that is torn, altered or of another version."""
    if sha256(content).hexdigest()[:16] != name.removesuffix(MANIFEST_SUFFIX).rpartition("-")[2]:
        raise ValueError("its manifest is damaged")
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError:
        raise ValueError("its manifest is of another version") from None
    if manifest.format != FORMAT:
        raise ValueError("its manifest is of another version")
    return manifest


def unfit(manifest: Manifest, identity: Identity, loss: str, ends: Mapping[str, int]) -> str:
    """The reason why a checkpoint cannot stand for the log up to its positions; empty if it can, so far.

    `loss`: what is accepted as lost now; `ends`: the high watermarks. The evidence is for the caller to look at.
    """
    if differences := identity.differences(encode_json(manifest.identity)):
        return differences
    if manifest.platform != PLATFORM:
        return f"it is of a machine with other numbers ({manifest.platform})"
    if manifest.loss != loss:
        return "it is from before a loss that was accepted"
    for kind, end in ends.items():
        at = getattr(manifest.positions, kind)
        if at > end:
            return f"it is ahead of the log: it knows the {kind} up to {at}, the log ends at {end}"
    return ""
