"""The messages of a run about its process managers."""

from dataclasses import replace

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.render.progress import RunDisplay
from cqrs_cli.following.processes.plan import ProcessProgress, Subscription
from cqrs_cli.kafka.event_tail import EventPartition
from tests.cli.conftest import Cqrs
from tests.support.progress import snapshot


def test_listening_is_no_warning(cqrs: Cqrs) -> None:
    """The message is printed once, when every partition of the process managers has been claimed."""
    subscriptions = [
        Subscription("checkout", EventPartition("order", "order.events", number)) for number in range(2)
    ]

    def connection(cli: Cli) -> None:
        with RunDisplay(cli) as display:
            looks: list[tuple[int, ...]] = [(), (0,), (0, 1), (0,), (0, 1)]
            for at, claimed in enumerate(looks):
                ends = dict.fromkeys(subscriptions, 3) if at else {}  # the broker did not respond at first
                claims = frozenset(subscriptions[number] for number in claimed)
                processes = ProcessProgress(at, {}, ends, claims)
                display.show(replace(snapshot(at, 0), processes=processes))
        raise KeyboardInterrupt

    (said,) = cqrs("run", "counter", connect=connection).err.splitlines()
    assert " info: checkout: listening; what is recorded from now on is reacted to" in said
