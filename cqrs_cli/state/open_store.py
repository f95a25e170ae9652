"""Opens the store of a partition: its shard on disk, or a store in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.state.identity import Identity
from cqrs_cli.state.memory import MemoryBudget, MemoryStore
from cqrs_cli.state.shard import Limits, Shard, open_shard


class OpenStore(NamedTuple):
    """An open store. If `fresh`, the shard was just created, so any damage in it is the disk's fault."""

    store: Shard | MemoryStore
    fresh: bool


def open_store(
    path: Path | None, identity: Identity, budget: MemoryBudget, note: Callable[[str], None], limits: Limits
) -> OpenStore:
    """Open the shard in `path`; if `path` is None, create a store in memory within the `budget`.

    Raises the errors of `open_shard`.
    """
    if path is None:
        return OpenStore(MemoryStore(identity.window_ms, budget), fresh=False)
    opened = open_shard(path, identity, note, limits)
    return OpenStore(opened.store, opened.fresh)
