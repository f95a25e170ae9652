"""The parts of a task that its threads share."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.following.processes.supervisor import cached_loader
from tests.support import ROOT


def test_aggregates_load_once_and_in_turn() -> None:
    """Two concurrent loads would meet at the barrier. A single load times out on it."""
    barrier, concurrent, names = threading.Barrier(2), list[str](), list[str]()

    def load(name: str) -> Aggregate:
        names.append(name)
        with suppress(threading.BrokenBarrierError):
            barrier.wait(timeout=0.2)
            concurrent.append(name)
        return registry.load(name, "aggregates", ROOT)

    load_once = cached_loader(load)
    with ThreadPoolExecutor(4) as pool:
        aggregates = list(pool.map(load_once, ["order", "payment", "order", "payment"]))
    assert concurrent == [] and sorted(names) == ["order", "payment"]
    assert [aggregate.name for aggregate in aggregates] == ["order", "payment", "order", "payment"]
