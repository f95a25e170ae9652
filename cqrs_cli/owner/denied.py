"""Naming the ACL that keeps an owner from its work: librdkafka does not always say which topic or id it was."""

from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import needs, refusal
from cqrs_cli.kafka.topics.topics import Topics


def denied(connection: Connection, topics: Topics) -> CqrsError:
    """What the user of a run lacks for these topics, as the error that ends the run."""
    try:
        with Admin(connection) as admin:
            missing = admin.missing(needs("run", topics))
    except CqrsError as error:
        return error
    if missing:
        return refusal(missing, "run")
    return ConfigurationError(
        f"the broker at {connection.bootstrap_server} does not allow what run does with {topics.aggregate}",
        "an ACL has changed, or a Deny stands: cqrs doctor --for run",
    )
