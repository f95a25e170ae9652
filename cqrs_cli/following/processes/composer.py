"""The interface of composers. A composer turns the values that `react` returns for an event into records.

The records have deterministic ids. `load.COMPOSERS` has the composer of each kind of process manager.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from cqrs_cli.client.envelope import IN_PYTHON, Attributes, create_command, valid_propagated_attributes
from cqrs_cli.codec.record_codec import AS_STORED, RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.messages.payload_reference import PayloadReference
from cqrs_cli.core.messages.reaction_id import ReactionId, process_source
from cqrs_cli.core.messages.timestamps import milliseconds_of
from cqrs_cli.core.process import Process
from cqrs_cli.core.react import InvalidReaction
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.plan import OutputTopic
from cqrs_cli.kafka.topics.partitioner import Partitioner, producer_partition

#: Maximum bytes of the records for one event. One transaction contains all of these records.
MAX_EVENT_BYTES = 8 * 1024 * 1024


class ComposedRecord(NamedTuple):
    """A record and its payloads. The payloads must be uploaded before the record is written."""

    topic: str
    value: bytes
    key: bytes
    partition: int
    payloads: Mapping[PayloadReference, bytes] = {}

    @property
    def size(self) -> int:
        """Number of bytes of the record and its payloads."""
        return len(self.value) + sum(map(len, self.payloads.values()))


def upload_payloads(codec: RecordCodec, records: Iterable[ComposedRecord]) -> None:
    """Upload the payloads of records; raises `PayloadUnavailableError`, after which no record may be written."""
    payloads_by_topic: dict[str, dict[PayloadReference, bytes]] = defaultdict(dict)
    for record in records:
        if record.payloads:
            payloads_by_topic[record.topic].update(record.payloads)
    for topic, payloads in payloads_by_topic.items():
        codec.upload(topic, payloads)


class Composer(ABC):
    """Composes the records of one process manager."""

    def __init__(
        self,
        name: str,
        process: Process,
        outputs: Mapping[str, OutputTopic],
        partitioner: Partitioner,
        load: Callable[[str], Aggregate],
        codec: RecordCodec = AS_STORED,
    ) -> None:
        """`outputs`: name of a topic without prefix → topic that the process manager may write to. `load` returns the
        aggregate with a name. `codec` replaces large data by payload references, if it has a payload store.
        """
        self._name, self._process, self._outputs = name, process, outputs
        self._partitioner, self._load, self._codec = partitioner, cache(load), codec
        self._source, self._names = process_source(name), IN_PYTHON._replace(subject=process.key_name)

    @staticmethod
    @abstractmethod
    def output_topics(process: Any, module: ModuleType, aggregates: Collection[str], root: Path) -> set[str]:
        """Return the topics (without prefix) in the process manager's code. They must exist when a run starts.

        Raises `ConfigurationError` for a name that cannot be an output topic.
        """

    @abstractmethod
    def _compose(self, recorded: Recorded[Event], value: Any, id: str, time: int) -> ComposedRecord:
        """Return the record for a value that `react` has returned; raises `InvalidReaction`.

        `id`: the id of the record. `time`: the event's time in ms.
        """

    def compose(self, recorded: Recorded[Event], values: tuple[Any, ...]) -> list[ComposedRecord]:
        """Return the records for the values that `react` has returned; raises `InvalidReaction` for a value that no
        reader of the topic would accept.
        """
        if not values:
            return []
        time = milliseconds_of(recorded.time)
        first_id = ReactionId(self._name, recorded.topic, recorded.id, time, 0)
        records = [
            self._compose(recorded, value, str(first_id._replace(number=number)), time)
            for number, value in enumerate(values)
        ]
        if sum(len(record.value) for record in records) > MAX_EVENT_BYTES:
            raise InvalidReaction(
                f"react returned more than {MAX_EVENT_BYTES >> 20} MiB of {self._process.noun} for one event"
            )
        return [self._with_payload_reference(record) for record in records]

    def _with_payload_reference(self, record: ComposedRecord) -> ComposedRecord:
        value, payloads = self._codec.replace_large_data(record.topic, record.value)
        return record._replace(value=value, payloads=payloads) if payloads else record

    def _record(
        self, recorded: Recorded[Event], topic: str, key: str, wire_type: str, data: bytes, **attributes: Any
    ) -> ComposedRecord:
        """Return a CloudEvent for the output `topic`. Its causation id is the id of the event."""
        output, correlation = self._outputs[topic], recorded.correlation_id or None
        all_attributes = Attributes(
            correlation=correlation,
            causation=recorded.id,
            **attributes,
            **valid_propagated_attributes(recorded),
        )
        try:
            ready = create_command(
                output.topic, key, wire_type, data, self._source, all_attributes, self._names
            )
        except CqrsError as error:
            raise InvalidReaction(f"{wire_type}: {error.message}") from error
        encoded_key = key.encode()
        partition = producer_partition(self._partitioner, encoded_key, output.partitions)
        return ComposedRecord(output.topic, ready.value, encoded_key, partition)
