"""Broker requests that our clients never send: the effects of misbehaving programs and of operators' tools."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import TopicPartition

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.kafka.admin import client as admin_client
from cqrs_cli.kafka.connection.cluster import Cluster


class Producer(NamedTuple):
    """The response to an InitProducerId request."""

    id: int
    epoch: int


class RawClient:
    """Sends requests to the only broker."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def send(self, request: Any) -> Any:
        """Send a request and return its response."""

        async def send() -> Any:
            return await self._client._manager.send(request)

        return self._client._manager.run(send)

    def init_producer(self, transactional_id: str, timeout_ms: int = 60_000) -> Producer:
        """Fence the previous producer of this id. Retries while the previous fence is still being written."""
        from kafka.errors import for_code
        from kafka.protocol.producer import InitProducerIdRequest

        while True:
            response = self.send(
                InitProducerIdRequest(
                    transactional_id=transactional_id,
                    transaction_timeout_ms=timeout_ms,
                    producer_id=-1,
                    producer_epoch=-1,
                    max_version=4,
                )
            )
            if response.error_code == 0:
                return Producer(response.producer_id, response.producer_epoch)
            if not for_code(response.error_code).retriable:
                raise for_code(response.error_code)

    def produce(self, topic: str, partition: int, value: bytes, producer: Producer, id: str) -> int:
        """Write one record in a transaction that is unknown to its coordinator. Return the response's error code."""
        from kafka.record.default_records import DefaultRecordBatchBuilder

        batch = DefaultRecordBatchBuilder(2, 0, True, producer.id, producer.epoch, 0, 1 << 20)
        batch.append(0, int(time.time() * 1000), b"k", value, [])
        return self._produce(topic, partition, batch, id)

    def produce_outputs(
        self,
        topic: str,
        partition: int,
        outputs: Sequence[tuple[bytes | None, bytes | None, int]],
        producer: Producer,
        id: str,
        headers: Sequence[tuple[str, bytes]] = HEADERS,
    ) -> int:
        """Write an owner's records as `produce` does."""
        from kafka.record.default_records import DefaultRecordBatchBuilder

        batch = DefaultRecordBatchBuilder(2, 0, True, producer.id, producer.epoch, 0, 1 << 20)
        for number, (value, key, timestamp) in enumerate(outputs):
            batch.append(number, timestamp, key, value, [*headers])
        return self._produce(topic, partition, batch, id)

    def commit_pending(self, group: str, offset: TopicPartition, producer: Producer, id: str) -> None:
        """Commit an offset in a transaction that is unknown to its coordinator. The commit stays pending."""
        from kafka.protocol.producer import TxnOffsetCommitRequest

        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        row = topic.TxnOffsetCommitRequestPartition(
            partition_index=offset.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=-1,
            committed_metadata=offset.metadata,
        )
        response = self.send(
            TxnOffsetCommitRequest(
                transactional_id=id,
                group_id=group,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[topic(name=offset.topic, partitions=[row])],
                max_version=3,
            )
        )
        assert response.topics[0].partitions[0].error_code == 0

    def writer(self, id: str) -> Producer:
        """Return the current producer of a transactional id."""
        description = self._client.describe_transactions([id])[id]
        return Producer(description.producer_id, description.producer_epoch)

    def end_transaction(self, id: str, producer: Producer, commit: bool) -> int:
        """Send a request to end the open transaction. Return the response's error code."""
        from kafka.protocol.producer import EndTxnRequest

        request = EndTxnRequest(
            transactional_id=id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=commit,
            max_version=3,
        )
        return int(self.send(request).error_code)

    def state(self, id: str) -> str:
        """Return the state of a transactional id's transaction, as its coordinator reports it."""
        return str(self._client.describe_transactions([id])[id].state.value)

    def append(self, topic: str, partition: int, key: bytes, value: bytes, header: bytes) -> int:
        """Write one record whose header name need not be UTF-8. Return the response's error code."""
        from kafka.record.default_records import DefaultRecordBatchBuilder

        class Name(str):
            def encode(self, *_: object) -> bytes:
                return header

        batch = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
        headers = [*HEADERS, (Name(), b"v")]
        batch.append(0, int(time.time() * 1000), key, value, headers)
        return self._produce(topic, partition, batch, None)

    def commit(self, group: str, topic: str, partition: int, offset: int, metadata: bytes) -> None:
        """Commit an offset whose metadata need not be UTF-8."""
        from kafka.protocol.consumer import OffsetCommitRequest

        class Metadata(str):
            def encode(self, *_: object) -> bytes:
                return metadata

        topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
        row = topic_type.OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=-1,
            committed_metadata=Metadata("x"),
        )
        response = self.send(
            OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                topics=[topic_type(name=topic, partitions=[row])],
                max_version=7,
            )
        )
        assert response.topics[0].partitions[0].error_code == 0

    def _produce(self, topic: str, partition: int, batch: Any, id: str | None) -> int:
        from kafka.protocol.producer import ProduceRequest

        data = ProduceRequest.TopicProduceData
        rows = [data.PartitionProduceData(index=partition, records=bytes(batch.build()))]
        response = self.send(
            ProduceRequest(
                transactional_id=id,
                acks=-1,
                timeout_ms=10_000,
                topic_data=[data(name=topic, partition_data=rows)],
                max_version=9,
            )
        )
        return int(response.responses[0].partition_responses[0].error_code)

    def configure_broker(self, name: str, value: str) -> None:
        """Change a setting of the running broker."""
        from kafka.admin import ConfigResource, ConfigResourceType

        resource = ConfigResource(ConfigResourceType.BROKER, "1", configs={name: value})
        self._client.alter_configs([resource], raise_on_unknown=False)

    def limit_writing(self, client_id: str, rate: float | None) -> None:
        """Limit the bytes per second that clients with this id may write. None removes the limit."""
        from kafka.protocol.admin import AlterClientQuotasRequest

        entry = AlterClientQuotasRequest.EntryData
        entity = entry.EntityData(entity_type="client-id", entity_name=client_id)
        operation = entry.OpData(key="producer_byte_rate", value=rate or 0.0, remove=rate is None)
        response = self.send(
            AlterClientQuotasRequest(entries=[entry(entity=[entity], ops=[operation])], validate_only=False)
        )
        assert [row.error_code for row in response.entries] == [0]

    def abort(self, topic: str, partition: int, producer: Producer) -> None:
        """Abort a hanging transaction, as `kafka-transactions.sh abort` does."""
        from kafka import TopicPartition
        from kafka.admin import AbortTransactionSpec

        topic_partition = TopicPartition(topic, partition)
        self._client.abort_transaction(AbortTransactionSpec(topic_partition, producer.id, producer.epoch))


@contextmanager
def raw_client(connection: Cluster) -> Iterator[RawClient]:
    client = admin_client.connect(connection)
    try:
        yield RawClient(client)
    finally:
        client.close()
