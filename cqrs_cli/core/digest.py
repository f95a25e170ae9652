"""A digest of a set of aggregates: the sum of their digests, so the order does not matter."""

import hashlib
from struct import Struct

from cqrs_cli.core.aggregate.aggregate import Aggregate

MODULUS = 2**256

#: The bytes before id and state. With both lengths, two different aggregates never give the same bytes.
_FRAME = Struct(">IQQ")  # bytes of the id, version, bytes of the state


def aggregate_digest(aggregate_id: str, version: int, state: bytes) -> int:
    """Return the SHA-256 of id, version and canonical state, as a number below 2^256."""
    id_bytes = aggregate_id.encode()
    return int.from_bytes(
        hashlib.sha256(_FRAME.pack(len(id_bytes), version, len(state)) + id_bytes + state).digest(), "big"
    )


def state_digest(aggregate: Aggregate, aggregate_id: str, version: int, state: bytes) -> int:
    """Return the digest of an instance of `aggregate`, without its personal fields.

    So the digest is the same before and after an erasure, and for readers without keys.
    """
    return aggregate_digest(aggregate_id, version, aggregate.personal.redact_data(aggregate.state, state))


def add_digests(total: int, digest: int) -> int:
    """Return the sum modulo 2^256. It is commutative and associative, so parts may be summed in any order."""
    return (total + digest) % MODULUS


def as_hex(total: int) -> str:
    """Return a sum as 64 hex digits."""
    return f"{total:064x}"
