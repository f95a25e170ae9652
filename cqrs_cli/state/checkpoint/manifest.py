"""The manifest of a checkpoint: the identity and positions of its shard, and evidence of the log that was folded."""

import struct
import sys
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.store import Positions

#: The version of the format. Raise it with any change; manifests of other versions are not read.
FORMAT: Final = 2

MANIFEST_SUFFIX: Final = ".json"
DATA_SUFFIX: Final = ".mdb"

#: LMDB's files contain numbers in the machine's own representation.
PLATFORM: Final = f"{sys.byteorder}, {8 * struct.calcsize('P')} bits"


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest of one checkpoint. It is written after the data, so an interrupted upload has no manifest."""

    format: int = FORMAT
    written: int  # ms since the epoch
    identity: Identity
    platform: str = PLATFORM
    positions: Positions
    loss: str  # the loss that an operator had accepted, the JSON of the claim's `AcceptedLoss`; empty for no loss
    aggregates: int  # number of aggregates in the shard
    size: int  # bytes of the data
    sha256: str  # of the data

    @property
    def stem(self) -> str:
        """The file name without its suffix. The names sort in the order of writing."""
        return f"{self.written:015}-{self.sha256[:16]}"

    @property
    def data_file(self) -> str:
        """The name of the data file."""
        return self.stem + DATA_SUFFIX

    def encoded(self) -> tuple[str, bytes]:
        """Return the manifest's file name, which contains a digest of the content, and the content."""
        content = encode_json(self)
        return f"{self.stem}-{sha256(content).hexdigest()[:16]}{MANIFEST_SUFFIX}", content

    def __str__(self) -> str:
        return f"the checkpoint of {rfc3339(self.written)}"


def read_manifest(name: str, content: bytes) -> Manifest:
    """Return the manifest in a file; raises `ValueError` if it is torn, altered or of another version."""
    if sha256(content).hexdigest()[:16] != name.removesuffix(MANIFEST_SUFFIX).rpartition("-")[2]:
        raise ValueError("its manifest is damaged")
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError:
        raise ValueError("its manifest is of another version") from None
    if manifest.format != FORMAT:
        raise ValueError("its manifest is of another version")
    return manifest


def mismatch_reason(manifest: Manifest, identity: Identity, loss: str, ends: Mapping[str, int]) -> str:
    """Return why a checkpoint cannot replace the log up to its positions; empty if it can.

    `loss`: the accepted loss in the present claim, as in `Manifest.loss`. `ends`: topic kind → high watermark. The
    caller has to check the evidence.
    """
    if differences := identity.differences(encode_json(manifest.identity)):
        return differences
    if manifest.platform != PLATFORM:
        return f"it was written on a machine with another byte order or word size ({manifest.platform})"
    if manifest.loss != loss:
        return "it was written before a loss was accepted"
    for kind, end in ends.items():
        position = getattr(manifest.positions, kind)
        if position > end:
            return f"it is ahead of the log: it has the {kind} up to {position}, the log ends at {end}"
    return ""
