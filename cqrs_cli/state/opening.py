"""Opening the store of a partition: its shard on disk, or one in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.state.identity import Identity
from cqrs_cli.state.memory import MemoryBudget, MemoryStore
from cqrs_cli.state.shard import Limits, Shard, open_shard


class OpenedStore(NamedTuple):
    """An open store; `fresh`: a shard that was just made, so that damage in it is the disk's."""

    store: Shard | MemoryStore
    fresh: bool


def open_store(
    path: Path | None, identity: Identity, budget: MemoryBudget, note: Callable[[str], None], limits: Limits
) -> OpenedStore:
    """Open the shard in `path`; without a path, an empty store in memory, which takes its bytes from the budget.

    Raises what `open_shard` raises.
    """
    if path is None:
        return OpenedStore(MemoryStore(identity.window_ms, budget), fresh=False)
    opened = open_shard(path, identity, note, limits)
    return OpenedStore(opened.store, opened.fresh)
