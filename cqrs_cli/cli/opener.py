"""The opener of the personal fields of events for commands that show records as they stand in the log."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.context import Cli
from cqrs_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from cqrs_cli.keys.opener import EventOpener


def opener_of(cli: Cli, aggregate: str) -> "EventOpener | None":
    """The opener of an aggregate's events; None where its code is not at hand: they are shown sealed then."""
    from cqrs_cli.core.sealed_events import event_marks
    from cqrs_cli.kafka.keys_log import event_opener

    try:
        marks = event_marks(cli.aggregate(aggregate))
    except ConfigurationError:  # records can be looked at without it
        return None
    connection = cli.connection()
    return event_opener(connection, connection.keys, cli.topics(aggregate), marks)
