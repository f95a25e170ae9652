"""Finds open transactions, which block the read_committed readers of a partition."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cqrs_cli.kafka.connection.cluster import Cluster

#: An open transaction counts as hanging this number of milliseconds after its timeout.
GRACE_MS = 60_000

#: Minimal age in milliseconds of the transactions that are reported. Younger open transactions are usual.
YOUNG_MS = 5_000


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open on one partition.

    `transactional_id` and `timeout_ms` are None if no coordinator knows the transaction: then it never ends by itself.
    """

    topic: str
    partition: int
    first_offset: int  # offset of the transaction's first record in the partition
    producer_id: int
    producer_epoch: int
    began_at: int  # ms since the epoch
    transactional_id: str | None = None
    timeout_ms: int | None = None

    @property
    def identity(self) -> tuple[str, int, int, int]:
        """The identity of the transaction: its topic and partition, its first offset and its producer."""
        return self.topic, self.partition, self.first_offset, self.producer_id

    def hangs(self, now: int) -> bool:
        """True if the transaction will probably not end by itself. `now` in ms."""
        return self.timeout_ms is None or now - self.began_at > self.timeout_ms + GRACE_MS

    def is_young(self, now: int) -> bool:
        """True if the transaction is too young to be reported. `now` in ms."""
        return abs(now - self.began_at) < YOUNG_MS

    def hidden_records_message(self) -> str:
        """Return a message about the hidden records, and about the time at which the transaction ends at the latest."""
        end = (
            "will not end by itself"
            if self.timeout_ms is None
            else f"must end by {_time(self.began_at + self.timeout_ms)}"
        )
        return (
            f"{self.topic} partition {self.partition}: the records from offset {self.first_offset} on are invisible: "
            f"{self} hides them, and {end}"
        )

    def __str__(self) -> str:
        transactional_id = self.transactional_id or "of an unknown id"
        return f"open transaction {transactional_id} (producer id {self.producer_id}) since {_time(self.began_at)}"

    def hint(self, cluster: Cluster) -> str:
        """Return the hint for an operator who waits for the end of the transaction."""
        return f"end the program that opened it, or {self.abort_command(cluster)}"

    def abort_command(self, cluster: Cluster) -> str:
        """Return Kafka's command that aborts the transaction."""
        login = " --command-config FILE" if "security.protocol" in cluster.properties else ""
        return (
            f"kafka-transactions.sh --bootstrap-server {cluster.bootstrap_server}{login} abort --topic {self.topic} "
            f"--partition {self.partition} --start-offset {self.first_offset}"
        )


def _time(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def find_open_transactions(client: Any, partitions: Iterable[tuple[str, int]]) -> list[OpenTransaction]:
    """Return the open transactions on these (topic, partition) pairs, from the partitions' leaders and the
    coordinators.

    Leaders are asked before coordinators, so a transaction that ends in between seems to have no coordinator. Therefore
    leaders are asked a second time about transactions without a coordinator. They no longer report a transaction that
    has ended, because coordinators forget a transaction only after its markers are written.
    """
    transactions = _open_transactions(client, partitions)
    without_coordinator = {
        transaction.identity for transaction in transactions if transaction.timeout_ms is None
    }
    if not without_coordinator:
        return transactions
    second_answer = _open_transactions(
        client, {(topic, partition) for topic, partition, *_ in without_coordinator}
    )
    return [
        *(transaction for transaction in transactions if transaction.identity not in without_coordinator),
        *(transaction for transaction in second_answer if transaction.identity in without_coordinator),
    ]


def _open_transactions(client: Any, partitions: Iterable[tuple[str, int]]) -> list[OpenTransaction]:
    """Ask the leaders for open transactions, then the coordinators for their descriptions."""
    from kafka import TopicPartition

    states = client.describe_producers([TopicPartition(*partition) for partition in partitions])
    producers = [
        (partition, producer)
        for partition, state in states.items()
        for producer in state.active_producers
        if producer.current_transaction_start_offset >= 0
    ]
    descriptions = _descriptions(client, {producer.producer_id for _, producer in producers})
    return [
        _transaction(partition, producer, descriptions.get(producer.producer_id))
        for partition, producer in producers
    ]


def _transaction(
    partition: Any, producer: Any, name_and_description: tuple[str, Any] | None
) -> OpenTransaction:
    """Return one open transaction. `name_and_description`: (transactional id, kafka-python's description from the
    coordinator); None if no coordinator knows the transaction.
    """
    transactional_id, description = name_and_description or (None, None)
    start_time = description.transaction_start_time_ms if description else -1
    return OpenTransaction(
        topic=partition.topic,
        partition=partition.partition,
        first_offset=producer.current_transaction_start_offset,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        began_at=start_time if start_time >= 0 else producer.last_timestamp,
        transactional_id=transactional_id,
        timeout_ms=description.transaction_timeout_ms if description else None,
    )


def _descriptions(client: Any, producer_ids: set[int]) -> dict[int, tuple[str, Any]]:
    """Return producer id → (transactional id, description), for transactions that a coordinator reports as ongoing."""
    from kafka.errors import TransactionalIdNotFoundError

    if not producer_ids:
        return {}
    listing = client.list_transactions(producer_id_filters=sorted(producer_ids))
    ongoing_ids = {
        row.transactional_id
        for rows in listing.values()
        for row in rows
        if row.state in ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
    }
    try:
        descriptions = client.describe_transactions(sorted(ongoing_ids)) if ongoing_ids else {}
    except TransactionalIdNotFoundError:  # expired after it was listed
        descriptions = {}
    return {description.producer_id: (name, description) for name, description in descriptions.items()}
