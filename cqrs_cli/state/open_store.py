"""Opens the store of a partition: its shard on disk, or a store in memory."""

from pathlib import Path
from typing import NamedTuple

from cqrs_cli.state.identity import Identity
from cqrs_cli.state.limits import Limits
from cqrs_cli.state.memory import MemoryBudget, MemoryStore
from cqrs_cli.state.shard import Shard, open_shard


class OpenStore(NamedTuple):
    """An open store. If `is_new`, the shard was just created, so any damage in it is the disk's fault."""

    store: Shard | MemoryStore
    is_new: bool


def open_store(
    path: Path | None,
    identity: Identity,
    budget: MemoryBudget,
    limits: Limits,
) -> OpenStore:
    """Open the shard in `path`; if `path` is None, create a store in memory within the `budget`.

    Raises the errors of `open_shard`.
    """
    if path is None:
        return OpenStore(MemoryStore(identity.window_ms, budget), is_new=False)
    open_result = open_shard(path, identity, limits)
    return OpenStore(open_result.store, open_result.is_new)
