"""The messages of a run about its process managers."""

from dataclasses import replace

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.render.progress import RunDisplay, run_result
from cqrs_cli.following.processes.plan import ProcessProgress, Subscription
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.runs.snapshot import Snapshot
from tests.cli.conftest import Cqrs
from tests.support.progress import snapshot


def test_complete_subscription_is_reported_once(cqrs: Cqrs) -> None:
    """The message is printed once, when every partition of the process managers has been claimed."""
    subscriptions = [
        Subscription("checkout", EventPartition("order", "order.events", number)) for number in range(2)
    ]

    def connection(cli: Cli) -> None:
        with RunDisplay(cli) as display:
            claimed_numbers: list[tuple[int, ...]] = [(), (0,), (0, 1), (0,), (0, 1)]
            for index, claimed in enumerate(claimed_numbers):
                ends = dict.fromkeys(subscriptions, 3) if index else {}  # the broker did not respond at first
                claims = frozenset(subscriptions[number] for number in claimed)
                processes = ProcessProgress(index, {}, ends, claimed=claims)
                display.show(replace(snapshot(index, 0), process_progress=processes))
        raise KeyboardInterrupt

    (line,) = cqrs("run", "counter", connect=connection).err.splitlines()
    assert " info: checkout: subscribed; every event from now on will be handled" in line


def test_result_without_aggregates_names_positions() -> None:
    subscription = Subscription("checkout", EventPartition("order", "order.events", 0))
    snapshot = Snapshot(
        0.0,
        process_progress=ProcessProgress(
            0.0, {subscription: 7}, {subscription: 9}, events=5, commands=4, seconds=2.0
        ),
    )
    document, text = run_result(snapshot)
    assert text == "checkout: 5 events led to 4 new records in 2 s; at 7 of 9 records"
    assert document["reactions"] == {"events": 5, "commands": 4, "seconds": 2.0}
    assert document["processes"]["checkout"] == {"lag": 2, "positions": {"order.events": {"0": 7}}}
