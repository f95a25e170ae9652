"""Consumers that one reading after another takes, where each would else open a client of its own.

A client costs this process and its broker some milliseconds of processor time, and its first answer comes only when it
is connected. An owner that begins reads its logs two dozen times, and others that wait for their turn do so again and
again.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import Consumer

from cqrs_cli.kafka.clients import Isolation, bulk_consumer
from cqrs_cli.kafka.connection.cluster import Cluster


class Lender:
    """Keeps the clients of one cluster and one group between two readings, until it is told to close them.

    A reading within another one has a client of its own. A client that has met an error is not lent again: one that
    knows a broker which was cut off from the others may go on asking it.
    """

    def __init__(self, connection: Cluster, group: str) -> None:
        self._connection, self._group = connection, group
        self._idle: dict[Isolation, list[Consumer]] = {"read_committed": [], "read_uncommitted": []}

    @contextmanager
    def lend(self, isolation: Isolation = "read_committed") -> Iterator[Consumer]:
        """A client for the block, which is assigned nothing."""
        idle = self._idle[isolation]
        client = idle.pop() if idle else _opened(self._connection, self._group, isolation)
        try:
            yield client
        except GeneratorExit:  # who reads has seen enough
            _take_back(client, idle)
            raise
        except BaseException:
            client.close()
            raise
        _take_back(client, idle)

    def close(self) -> None:
        """Close the clients that are not lent. The next reading opens another one."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()


@contextmanager
def borrowed(
    connection: Cluster,
    lender: Lender | None,
    isolation: Isolation = "read_committed",
    group: str | None = None,
) -> Iterator[Consumer]:
    """A client to read with: a lent one or, without a `lender`, one of this `group` that is closed behind the block."""
    if lender is not None:
        with lender.lend(isolation) as client:
            yield client
    else:
        with closing(_opened(connection, group, isolation)) as client:
            yield client


def _take_back(client: Consumer, idle: list[Consumer]) -> None:
    client.unassign()
    idle.append(client)


def _opened(connection: Cluster, group: str | None, isolation: Isolation) -> Consumer:
    return bulk_consumer(connection, group=group, isolation=isolation)
