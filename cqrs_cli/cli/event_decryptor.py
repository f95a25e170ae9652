"""The decryptor of personal fields for commands that show events as they are in the log."""

from typing import TYPE_CHECKING

from cqrs_cli.cli.context import Cli
from cqrs_cli.errors import ConfigurationError

if TYPE_CHECKING:
    from cqrs_cli.keys.event_decryptor import EventDecryptor


def event_decryptor(cli: Cli, aggregate: str) -> "EventDecryptor | None":
    """Return the decryptor of an aggregate's events; None without the aggregate's code: the events stay encrypted."""
    from cqrs_cli.core.encrypted_events import personal_members
    from cqrs_cli.kafka.keys_log import event_decryptor

    try:
        annotations = personal_members(cli.aggregate(aggregate))
    except ConfigurationError:  # records can be shown without the code
        return None
    connection = cli.connection()
    return event_decryptor(connection, connection.keys, cli.topics(aggregate), annotations)
