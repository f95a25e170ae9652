"""Converts a state between `StoredState`, its form in the shard, and `VersionedState`, its form for deciding."""

from typing import Protocol

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS, class_name, is_interrupt
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import ContradictionError


class StateEncryption(Protocol):
    """Encrypts the personal members of states for a store, and decrypts them again."""

    def encrypt_state(self, subject: str, data: bytes) -> bytes:
        """Return the encrypted JSON of a state, for the store."""

    def decrypt_state(self, subject: str, data: bytes) -> bytes:
        """Return the JSON of a state from the store, decrypted; raises `ContradictionError` for a damaged state."""


def pack(
    aggregate: Aggregate, aggregate_id: str, state: VersionedState, encryption: StateEncryption | None = None
) -> StoredState:
    """Return the state in its stored form. `encryption`: None for an aggregate without personal fields."""
    data = aggregate.encode_state(state.state)
    if encryption is not None:
        data = encryption.encrypt_state(aggregate_id, data)
    return StoredState(state.version, state.offset, state.index, data)


def unpack(
    aggregate: Aggregate,
    aggregate_id: str,
    stored_state: StoredState,
    encryption: StateEncryption | None = None,
) -> VersionedState:
    """Return the state for deciding; raises `ContradictionError` if the code cannot read its own stored state."""
    try:
        data = (
            stored_state.state
            if encryption is None
            else encryption.decrypt_state(aggregate_id, stored_state.state)
        )
        state = aggregate.decode_state(data)
    except (ContradictionError, *PROCESS_ERRORS):
        raise
    except BaseException as error:  # a `__post_init__` may raise anything
        if is_interrupt(error):
            raise
        cause = class_name(type(error)) if aggregate.has_personal_fields else error
        raise ContradictionError(
            f"the state of {aggregate.name} {aggregate_id!r} cannot be read back: {cause}",
            "repair `evolve` and raise the decider's revision: the shard is then rebuilt from the events",
        ) from aggregate.redact_error(error)
    return VersionedState(stored_state.version, state, stored_state.offset, stored_state.eventindex)
