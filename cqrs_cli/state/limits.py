"""Timeouts for opening a shard. This module does not import LMDB, so a client without LMDB can describe a run."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Seconds to wait for other processes while a shard is opened: for its `lock`, and for a `change` in progress."""

    lock: float = 30.0  # checking a shard takes milliseconds, removing an old shard about a second
    change: float = 5.0  # a live owner's changes take at most about a second; a longer change never ends
