"""`cqrs send --wait-for`: wait until a projection has the events of a command (read your own writes)."""

from cqrs_cli.cli.context import Cli
from cqrs_cli.extras import require


class ReadModelWait:
    """Waits until the database of a projection has the events of an aggregate."""

    def __init__(self, cli: Cli, aggregate: str, name: str, database: str) -> None:
        """Raises `ConfigurationError` if the projection has never run for this aggregate."""
        require("projections", "--wait-for")
        from cqrs_cli.following.projections.database import open_database, parse_database

        self._cli, self._name, self._topics = cli, name, cli.topics(aggregate)
        self._engine = open_database(parse_database(database, cli.settings.root))
        self._wait_for(0, -1, 0.0)  # each position is beyond offset -1, so this only raises the error

    def wait(self, subject: str, timeout: float) -> None:
        """Wait until the projection has all present events of this aggregate.

        Raises `NoOutcomeError` after `timeout` seconds.
        """
        from cqrs_cli.kafka import readers
        from cqrs_cli.kafka.topics.partitioner import producer_partition

        connection, topic = self._cli.connection(), self._topics.events
        count = readers.partition_count(connection, topic)
        partition = producer_partition(self._cli.settings.partitioner, subject.encode(), count)
        end = readers.bounds(connection, topic, [partition])[partition][1]
        with self._cli.show_spinner(f"waiting for {self._name}"):
            self._wait_for(partition, end - 1, timeout)
        self._cli.print_note(f"{self._name} has the events")

    def _wait_for(self, partition: int, offset: int, timeout: float) -> None:
        from cqrs_cli import projections

        projections.wait(
            self._engine,
            partition,
            offset,
            projection=self._name,
            topic=self._topics.events,
            timeout=timeout,
        )
