"""Opens the store of a partition: its shard on disk, or a store in memory."""

from collections.abc import Callable
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
    add_note: Callable[[str], None],
    limits: Limits,
) -> OpenStore:
    """Open the shard in `path`; if `path` is None, create a store in memory within the `budget`.

    Raises the errors of `open_shard`.
    """
    if path is None:
        return OpenStore(MemoryStore(identity.window_ms, budget), is_new=False)
    opened = open_shard(path, identity, add_note, limits)
    return OpenStore(opened.store, opened.is_new)
