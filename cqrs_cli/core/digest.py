"""One number for a set of aggregates: equal sets give equal numbers, in whatever order they are summed."""

import hashlib
from struct import Struct

from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.personal.masking import mask_data

MODULUS = 2**256

#: Two lengths before the texts and the version between them: no two aggregates are framed as the same bytes.
_FRAME = Struct(">IQQ")  # bytes of the id, version, bytes of the state


def aggregate_digest(aggregate_id: str, version: int, state: bytes) -> int:
    """SHA-256 over id, version and canonical state, as a number below 2^256."""
    name = aggregate_id.encode()
    return int.from_bytes(
        hashlib.sha256(_FRAME.pack(len(name), version, len(state)) + name + state).digest(), "big"
    )


def state_digest(cls: type[State], aggregate_id: str, version: int, state: bytes) -> int:
    """The digest of an aggregate with a state of this class. Its personal fields do not count.

    So it is the same before an erasure and after it, and for readers without keys.
    """
    return aggregate_digest(aggregate_id, version, mask_data(cls, state))


def add(total: int, digest: int) -> int:
    """The sum of both, modulo 2^256: commutative and associative, so parts may be summed anywhere."""
    return (total + digest) % MODULUS


def as_hex(total: int) -> str:
    """A sum as 64 hex digits."""
    return f"{total:064x}"
