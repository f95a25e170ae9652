"""The parts of a task that its threads share."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.following.processes.supervisor import cached_loader
from tests.support import ROOT


def test_threads_load_one_by_one() -> None:
    """Two concurrent loads would meet at the barrier. A single load times out on it."""
    barrier, met, names = threading.Barrier(2), list[str](), list[str]()

    def load(name: str) -> Aggregate:
        names.append(name)
        with suppress(threading.BrokenBarrierError):
            barrier.wait(timeout=0.2)
            met.append(name)
        return registry.load(name, "aggregates", ROOT)

    loaded = cached_loader(load)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(loaded, ["order", "payment", "order", "payment"]))
    assert met == [] and sorted(names) == ["order", "payment"]
    assert [one.name for one in found] == ["order", "payment", "order", "payment"]
