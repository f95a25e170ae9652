"""Ends a hanging transaction: a transaction that is open on a partition although its coordinator counts it as complete.

Kafka 4.2 to 4.4 omit the marker of a partition that has no leader at that time, as after a crash of all its replicas
(KAFKA-20734, measured on 4.4.0). A fence does not end the transaction. The producer's next marker on the partition ends
it, even with the opposite result: records of an aborted transaction become visible, or records of a committed
transaction vanish.
"""

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.admin.client import REQUEST_TIMEOUT_MS, send_request

#: Kafka's error codes after which the request is repeated: the coordinator is starting, has moved, or is still ending
#: an earlier transaction.
_RETRIABLE_CODES = {14, 15, 16, 51}

#: The highest version of these requests that librdkafka 2.16 also uses. In this version, the end of a transaction does
#: not change the producer epoch.
_MAX_VERSION = 3


class FencedProducer(NamedTuple):
    """A producer that has just fenced all other producers of its transactional id."""

    transactional_id: str
    producer_id: int
    epoch: int
    coordinator: int  # the node id of the transaction coordinator


def fence(client: Any, transactional_id: str, timeout_ms: int) -> FencedProducer:
    """Fence the producer of a transactional id with kafka-python's admin `client`; raises `UnavailableError`.

    `timeout_ms`: the transaction timeout of the new producer.
    """
    from kafka.protocol.producer import InitProducerIdRequest

    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=-1,
        producer_epoch=-1,
        max_version=_MAX_VERSION,
    )
    node = _coordinator(client, transactional_id)
    response = _send_with_retry(client, request, node, lambda response: [response.error_code])
    return FencedProducer(transactional_id, response.producer_id, response.producer_epoch, node)


def producer_id_of(client: Any, transactional_id: str) -> int:
    """Return the id of the current producer of a transactional id, without a fence."""
    return int(client.describe_transactions([transactional_id])[transactional_id].producer_id)


def open_producers(
    client: Any, partitions: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], dict[int, int]]:
    """Return the producers with an open transaction on each (topic, partition): producer id → first offset."""
    from kafka import TopicPartition

    states = client.describe_producers([TopicPartition(*partition) for partition in partitions])
    return {
        (partition.topic, partition.partition): {
            producer.producer_id: producer.current_transaction_start_offset
            for producer in state.active_producers
            if producer.current_transaction_start_offset >= 0
        }
        for partition, state in states.items()
    }


def end_hanging(
    client: Any, producer: FencedProducer, partitions: Collection[tuple[str, int]], group: str, commit: bool
) -> None:
    """Write a transaction marker to these (topic, partition) pairs, and to the offsets of the consumer group `group`.
    The marker commits or aborts all open transactions of the producer there. Raises `UnavailableError`, also if the
    producer is fenced.
    """
    from kafka.protocol.producer import AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest

    transactional_id, producer_id, epoch, node = producer
    make_topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    add_partitions = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[
            make_topic(name=topic, partitions=[partition]) for topic, partition in partitions
        ],
        max_version=_MAX_VERSION,
    )
    _send_with_retry(client, add_partitions, node, _partition_codes)
    producer_fields = {
        "transactional_id": transactional_id,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }
    for request in (
        AddOffsetsToTxnRequest(**producer_fields, group_id=group, max_version=_MAX_VERSION),
        EndTxnRequest(**producer_fields, committed=commit, max_version=_MAX_VERSION),
    ):
        _send_with_retry(client, request, node, lambda response: [response.error_code])


def _partition_codes(response: Any) -> list[int]:
    return [
        result.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]


def _coordinator(client: Any, transactional_id: str) -> int:
    from kafka.protocol.metadata import CoordinatorType

    return int(
        client._manager.run(client._find_coordinator_id, transactional_id, CoordinatorType.TRANSACTION)
    )


def _send_with_retry(client: Any, request: Any, node: int, codes_of: Callable[[Any], list[int]]) -> Any:
    """Repeat a request to the coordinator until an answer has no error, and return this answer. `codes_of(answer)`
    returns the error codes in an answer.
    """
    deadline = time.monotonic() + REQUEST_TIMEOUT_MS / 1000
    while True:
        response = send_request(client, request, node)
        errors = [code for code in codes_of(response) if code]
        if not errors:
            return response
        if errors[0] not in _RETRIABLE_CODES or time.monotonic() > deadline:
            raise UnavailableError(
                f"a hanging transaction could not be ended: Kafka error {errors[0]}",
                "check the cluster: cqrs doctor",
            )
        time.sleep(0.05)
