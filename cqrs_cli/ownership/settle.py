"""Words on transactions that hide what comes behind them.

Who may end one that Kafka left open, and how, is decided twice: `deciding.settle` knows all topics that its writer
writes, and no stranger writes to them; the commands topics that `following.processes.settle` looks at belong to all
clients.
"""

from collections.abc import Iterable

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.readers import StalledError


def settlement(commit: bool) -> str:
    """The words on a transaction that was settled."""
    end = "committed: a part of it was visible" if commit else "aborted: nobody has seen any of it"
    return f"Kafka had left a transaction open (KAFKA-20734); it is {end}"


def explain_stall(
    connection: Cluster, places: Iterable[tuple[str, int]], error: StalledError
) -> UnavailableError:
    """`error` with the open transaction that hides the end of one of these (topic, partition)s, and how to end it.

    A plain `UnavailableError` if there is none: the stall then passes, as when a partition has just got another leader.
    Raises that, too, without a broker.
    """
    with Admin(connection) as admin:
        found = admin.all_open_transactions(list(places))
    if not found:
        return UnavailableError(error.message, "start it again; if that does not help: cqrs doctor")
    return StalledError(f"{error.message}: {found[0]}", found[0].way_out(connection.bootstrap_server))
