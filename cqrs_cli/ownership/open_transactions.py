"""Texts about open transactions that hide the records after them.

Two modules decide whether and how to resolve a transaction that Kafka left open. `deciding.in_doubt` knows all topics
of its writer, to which no other client writes. `following.processes.in_doubt` handles commands topics, to which all
clients write.
"""

from collections.abc import Iterable

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.readers import StalledError


def resolution_text(committed: bool) -> str:
    """Return the text about a transaction that was resolved."""
    result = (
        "committed, because a part of it was visible" if committed else "aborted, because no part was visible"
    )
    return f"Kafka had left a transaction open (KAFKA-20734); it is {result}"


def explain_stall(
    connection: Cluster, partitions: Iterable[tuple[str, int]], error: StalledError
) -> UnavailableError:
    """Return `error`, extended by the open transaction that hides the end of one of these (topic, partition) pairs, and
    by the remedy.

    Without such a transaction, return a plain `UnavailableError`, because the stall will pass, for example after a
    change of the partition's leader. Raise `UnavailableError` without a broker.
    """
    with Admin(connection) as admin:
        transactions = admin.all_open_transactions(list(partitions))
    if not transactions:
        return UnavailableError(error.message, "start it again; if that does not help: cqrs doctor")
    return StalledError(f"{error.message}: {transactions[0]}", transactions[0].hint(connection))
