"""A pool of consumers for consecutive reads. Without a pool, each read opens its own client.

A new client costs milliseconds of processor time, in this process and in the broker, and must connect before its first
answer. An owner reads its logs two dozen times when it starts, and a waiting owner repeats these reads.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from confluent_kafka import Consumer

from cqrs_cli.kafka.clients import Isolation, bulk_consumer
from cqrs_cli.kafka.connection.cluster import Cluster


class ConsumerPool:
    """A consumer pool for one cluster and one group. It keeps idle consumers until it is closed.

    Concurrent reads get different consumers. After an error, a consumer is closed instead of returned to the pool,
    because it may still be connected to a broker that was cut off from the other brokers.
    """

    def __init__(self, connection: Cluster, group: str) -> None:
        self._connection, self._group = connection, group
        self._idle: dict[Isolation, list[Consumer]] = {"read_committed": [], "read_uncommitted": []}

    @contextmanager
    def acquire(self, isolation: Isolation = "read_committed") -> Iterator[Consumer]:
        """Acquire a consumer without assigned partitions, for the `with` block."""
        idle_clients = self._idle[isolation]
        client = (
            idle_clients.pop() if idle_clients else _open_consumer(self._connection, self._group, isolation)
        )
        try:
            yield client
        except GeneratorExit:  # the reader stopped early
            _release(client, idle_clients)
            raise
        except BaseException:
            client.close()
            raise
        _release(client, idle_clients)

    def close(self) -> None:
        """Close the idle consumers. The next read opens a new consumer."""
        for idle_clients in self._idle.values():
            while idle_clients:
                idle_clients.pop().close()


@contextmanager
def pooled_consumer(
    connection: Cluster,
    pool: ConsumerPool | None,
    isolation: Isolation = "read_committed",
    group: str | None = None,
) -> Iterator[Consumer]:
    """Acquire a consumer for the `with` block: from the `pool` or, if it is None, a new consumer of this `group`."""
    if pool is not None:
        with pool.acquire(isolation) as client:
            yield client
    else:
        with closing(_open_consumer(connection, group, isolation)) as client:
            yield client


def _release(client: Consumer, idle_clients: list[Consumer]) -> None:
    client.unassign()
    idle_clients.append(client)


def _open_consumer(connection: Cluster, group: str | None, isolation: Isolation) -> Consumer:
    return bulk_consumer(connection, group=group, isolation=isolation)
