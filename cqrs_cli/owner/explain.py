"""Finds out why the broker keeps an owner from its work: an open transaction, or a missing ACL."""

from cqrs_cli.errors import ConfigurationError, CqrsError, UnavailableError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.readers import StalledError
from cqrs_cli.kafka.topics.acls import needs, refusal
from cqrs_cli.kafka.topics.topics import Topics


def explain_stall(
    connection: Connection, topics: Topics, partition: int, error: StalledError
) -> UnavailableError:
    """`error` with the open transaction that hides the end of a log, and how to end it.

    A plain `UnavailableError` if there is none: the stall then passes, as when a partition has just got another leader.
    Raises that, too, without a broker.
    """
    with Admin(connection) as admin:
        found = admin.all_open_transactions(
            [(topic, partition) for topic in (topics.commands, topics.events, topics.outcomes)]
        )
    if not found:
        return UnavailableError(error.message, "start it again; if that does not help: cqrs doctor")
    how = found[0].how_to_abort(connection.bootstrap_server)
    return StalledError(f"{error.message}: {found[0]}", f"end the program that opened it, or {how}")


def explain_denial(connection: Connection, topics: Topics) -> CqrsError:
    """The error that ends a run whose user lacks an ACL: it names the ACL, which librdkafka does not always do."""
    try:
        with Admin(connection) as admin:
            missing = admin.missing_acls(needs("run", topics))
    except CqrsError as error:
        return error
    if missing:
        return refusal(missing, "run")
    return ConfigurationError(
        f"the broker at {connection.bootstrap_server} does not allow what run does with {topics.aggregate}",
        "an ACL has changed, or a Deny stands: cqrs doctor --for run",
    )
