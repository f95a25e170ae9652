"""Consumers that one reading after another takes, where each would else open a client of its own.

A client costs this process and its broker some milliseconds of processor time, and its first answer comes only when it
is connected. An owner that begins reads its logs a dozen times.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import Consumer

from cqrs_cli.kafka.clients import Isolation, bulk_consumer
from cqrs_cli.kafka.connection.cluster import Cluster


class Lender:
    """Keeps the clients of one cluster, which see what is committed, between two readings, until it is told to close
    them.

    A reading within another one has a client of its own. A client that has met an error is not lent again: one that
    knows a broker which was cut off from the others may go on asking it.
    """

    def __init__(self, connection: Cluster) -> None:
        self._connection = connection
        self._idle: list[Consumer] = []

    @contextmanager
    def lend(self) -> Iterator[Consumer]:
        """A client for the block, which is assigned nothing."""
        client = self._idle.pop() if self._idle else bulk_consumer(self._connection)
        try:
            yield client
        except GeneratorExit:  # who reads has seen enough
            self._take_back(client)
            raise
        except BaseException:
            client.close()
            raise
        self._take_back(client)

    def _take_back(self, client: Consumer) -> None:
        client.unassign()
        self._idle.append(client)

    def close(self) -> None:
        """Close the clients that are not lent. The next reading opens another one."""
        while self._idle:
            self._idle.pop().close()


@contextmanager
def borrowed(
    connection: Cluster, lender: Lender | None, isolation: Isolation = "read_committed"
) -> Iterator[Consumer]:
    """A client to read with: a lent one, or one that is closed behind the block, without a `lender` or where it is to
    see what is not committed.
    """
    if lender is not None and isolation == "read_committed":
        with lender.lend() as client:
            yield client
    else:
        with closing(bulk_consumer(connection, isolation=isolation)) as client:
            yield client
