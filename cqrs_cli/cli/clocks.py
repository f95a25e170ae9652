"""A warning about a clock that differs from the broker's clock."""

from contextlib import suppress
from typing import TYPE_CHECKING

from cqrs_cli.cli.context import Cli
from cqrs_cli.errors import CqrsError
from cqrs_cli.settings.durations import milliseconds

if TYPE_CHECKING:
    from cqrs_cli.kafka.admin.clock import OwnClock
    from cqrs_cli.kafka.connection.connection import Connection


def warn_of_clock_difference(cli: Cli, connection: "Connection", own_clock: "OwnClock | None" = None) -> None:
    """Warn if this machine's clock differs by more than `max_clock_skew` from a broker that reports its time.

    `own_clock`: replaces this machine's clock in tests.
    """
    from cqrs_cli.kafka.admin.clock import clock_message, local_clock
    from cqrs_cli.kafka.admin.topics import Admin

    with suppress(CqrsError), Admin(connection) as admin:
        difference = admin.clock_difference(own_clock or local_clock)
        if difference is not None and abs(difference) > milliseconds(cli.settings.max_clock_skew):
            cli.print_note(clock_message(difference), "warning")
