"""Timeouts for opening a shard, without LMDB, so that a run can be described where it is not installed."""

from typing import NamedTuple


class Limits(NamedTuple):
    """Timeouts in seconds for other processes while a shard is opened."""

    lock: float = 30.0  # checking a shard takes milliseconds, removing an old shard about a second
    change: float = 5.0  # a live owner's changes take at most about a second; a longer change never ends
