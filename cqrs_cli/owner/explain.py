"""Naming the open transaction that keeps an owner from reading a log to its end."""

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.readers import StalledError
from cqrs_cli.kafka.topics.topics import Topics


def named(connection: Connection, topics: Topics, partition: int, error: StalledError) -> UnavailableError:
    """`error` with the transaction it comes from and how to end that. A plain `UnavailableError` if there is none: then
    it passes, as when a partition has just got another leader. Raises that, too, without a broker.
    """
    with Admin(connection) as admin:
        found = admin.all_open_transactions(
            [(topic, partition) for topic in (topics.commands, topics.events, topics.outcomes)]
        )
    if not found:
        return UnavailableError(error.message, "start it again; if that does not help: cqrs doctor")
    how = found[0].how_to_abort(connection.bootstrap_server)
    return StalledError(f"{error.message}: {found[0]}", f"end the program that opened it, or {how}")
