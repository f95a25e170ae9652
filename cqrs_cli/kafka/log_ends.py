"""The offsets that a partition's only writer gives its records: a conditional append, which Kafka itself has not.

The end of what the writer has read is the end of the log, so its next record must get that offset. It gets another one
where the read came from a broker that only believed to lead (a later offset), or the topic was made again (an earlier
one). The transaction is then not committed.

Only the marker behind the writer's own last commit may be missing, which Kafka can leave out (kafka/admin/hanging.py):
then this transaction goes on in that one, and its commit is the commit of both.
"""

from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import KafkaError, Message

from cqrs_cli.kafka.write_errors import ReadShortError, TopicMadeAgainError

#: Told by librdkafka what became of a record.
OnDelivery = Callable[[KafkaError | None, Message], None]


class LogEnds:
    """The ends of one writer's logs: as read, as sent, as reported. A log that was not read may end anywhere."""

    def __init__(self) -> None:
        self._reported: dict[str, int] = {}
        self._next: dict[str, int] = {}  # the offset of the next record
        self._touched: set[str] = set()  # reported in this transaction
        self._marked: set[str] = set()  # behind a commit of ours
        self._unmarked: set[str] = set()  # found without its marker in this transaction
        self._misplaced: Exception | None = None

    def expect(self, ends: Mapping[str, int]) -> None:
        """Take the ends of the logs that were read, by topic."""
        self._reported, self._next = dict(ends), dict(ends)

    def begin(self) -> None:
        """Begin another transaction."""
        self._touched.clear()
        self._unmarked.clear()

    def send(self, topic: str, count: int) -> OnDelivery:
        """Note that `count` records are sent. The result takes the report on the last one."""
        end = self._next.pop(topic, None)
        if end is not None:
            self._next[topic] = end = end + count
        return partial(self._report, topic, end)

    def _report(self, topic: str, wanted: int | None, error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is not None or offset is None or offset < 0:
            return
        self._reported[topic] = end = offset + 1
        if wanted is not None:
            if topic not in self._touched and topic in self._marked and end == wanted - 1:
                self._unmarked.add(topic)
            self._check_place(topic, wanted - (topic in self._unmarked), end)
        self._touched.add(topic)

    def _check_place(self, topic: str, wanted: int, end: int) -> None:
        if end < wanted:
            self._misplaced = TopicMadeAgainError(topic)
        elif end > wanted:
            self._misplaced = ReadShortError(topic, wanted, end)

    def check(self) -> None:
        """Raise `TopicMadeAgainError` or `ReadShortError` if a record did not get its offset."""
        if self._misplaced is not None:
            raise self._misplaced

    def commit(self) -> None:
        """Note that the transaction is committed: a marker lies behind its records in each log."""
        for topic in self._touched:
            self._next[topic] = self._reported[topic] + 1
            self._marked.add(topic)

    def known(self, topic: str) -> int | None:
        """The end of a log after its last reported record: a lower bound, since a marker may follow."""
        return self._reported.get(topic)
