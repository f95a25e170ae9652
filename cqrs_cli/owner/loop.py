"""Step 5 of the owner protocol: poll, decide, commit to Kafka, then apply to the shard."""

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, is_denied
from cqrs_cli.kafka.records import records_of
from cqrs_cli.kafka.topics.partitioner import partition_function
from cqrs_cli.kafka.write_errors import BatchLateError, BatchRefusedError, BatchTimeError, TopicMadeAgainError
from cqrs_cli.owner.claim import Judgement, parse_claim
from cqrs_cli.owner.session import OwnerSession
from cqrs_cli.owner.signals import BatchTooLarge, ClaimLost
from cqrs_cli.owner.state_cache import StateCache


class Loop:
    """One owner at work, over a recovered shard."""

    def __init__(
        self,
        session: OwnerSession,
        aggregate: Aggregate,
        cache: StateCache,
        at: int,
        refused: frozenset[int],
    ) -> None:
        self.session = session
        self.aggregate = aggregate
        self.cache = cache
        self.at = at  # the offset of the next command
        self.refused = refused  # offsets that get a failed outcome unread
        self.next_batch_at = 0.0  # monotonic

    def run(self, stopping: Callable[[], bool]) -> None:
        """Decide until the target is reached or `stopping()` says so."""
        session, cache, timing = self.session, self.cache, self.session.timing
        topic, targets = session.log.topics.commands, session.plan.targets
        # Without it this client, which has talked to the group only, finds the partition's leader a second later.
        session.consumer.list_topics(topic, timeout=REQUEST_TIMEOUT)
        session.consumer.assign([TopicPartition(topic, session.partition.number, self.at)])
        target = None if targets is None else targets[session.partition]
        checked = refreshed = time.monotonic()
        while not stopping() and (target is None or self.at < target):
            records = self.poll()
            if records:
                self.decide_and_commit(records)
                if cache.pending >= timing.apply_every or len(records) < session.batch_limit // 10:
                    cache.flush()
                checked = time.monotonic()
                continue
            cache.flush()
            if (now := time.monotonic()) - checked >= timing.idle_check:
                self._check_claim(refresh=now - refreshed > timing.offset_refresh)
                checked = now
        cache.flush()
        if self.at != session.offset:
            session.commit_position(self.at)

    def poll(self) -> list[Record]:
        """A batch of commands, empty when none came in a moment; moves `at` past control records."""
        consumer, limit = self.session.consumer, self.session.batch_limit
        first = consumer.poll(0.2)
        if first is None:
            return []
        if (early := self.next_batch_at - time.monotonic()) > 0:
            time.sleep(early)
        return self._records([first, *consumer.consume(limit - 1, 0)] if limit > 1 else [first])

    def _records(self, messages: list[Message]) -> list[Record]:
        if not any(map(Message.error, messages)):
            return records_of(messages)
        for message in messages:
            error = message.error()
            if error is None:
                continue
            if error.code() == KafkaError._PARTITION_EOF:
                self.at = max(self.at, int(message.offset() or 0))
            elif is_denied(error):
                raise KafkaException(error)  # the supervisor finds out which ACL it was
            else:  # also where the records are gone: step 3 of the next owner says what was lost
                raise self.session.log.failure("commands", error)
        return records_of([message for message in messages if message.error() is None])

    def decide_and_commit(self, records: list[Record]) -> None:
        """Decide a batch and commit what it comes to; raises `BatchTooLarge` if its own records prevent that."""
        session, timing = self.session, self.session.timing
        failpoints.reached("decide.before")
        began = _now()
        with self.cache.reading():
            decisions = decide_batch(self.aggregate, records, self._context())
        end = records[-1].offset + 1
        failpoints.reached("decide.after")
        counts = session.counts.add(decisions.counts, began, _now())
        self._commit(decisions, records, end, replace(session.mine, counts=counts).metadata())
        session.batch_limit = min(session.batch_limit * 2, timing.batch_limit)
        session.useful = True
        session.counts = counts
        session.offset = end
        self.at = max(self.at, end)
        waits = 1 < len(records) < timing.backlog
        self.next_batch_at = time.monotonic() + (timing.batch_spacing if waits else 0.0)

    def _commit(self, decisions: Decisions, records: list[Record], end: int, metadata: str) -> None:
        session = self.session
        try:
            written = session.writer.commit(
                decisions.events, decisions.outcomes, decisions.dead_letters, session.consumer, end, metadata
            )
        except TopicMadeAgainError as error:
            name, number = session.partition
            raise ContradictionError(
                f"{error} partition {number} was deleted and created again while it was written to",
                "find out why; to go on without what it held: "
                f"cqrs run --accept-loss {name}:{number}@{records[0].offset}",
            ) from error
        except BatchRefusedError as error:
            late, untimely = isinstance(error, BatchLateError), isinstance(error, BatchTimeError)
            undecidable = decisions.counts["failed"] == len(records) and not untimely
            raise BatchTooLarge(records[0].offset, len(records), str(error), late, undecidable) from error
        self.cache.stage(decisions, end, written.events, written.outcomes)

    def _context(self) -> BatchContext:
        session, cache = self.session, self.cache
        partitioner, partitions = session.plan.partitioner, session.described.partitions
        return BatchContext(
            session.partition.number,
            cache.state,
            cache.remembered,
            _now,
            partition_function(partitioner, partitions),
            session.log.topics.commands,
            session.plan.window,
            cache.positions.clock,
            session.described.max_bytes["events"],
            self.refused,
        )

    def _check_claim(self, refresh: bool) -> None:
        """Read the claim while idle: an owner that commits nothing would never notice that it was fenced."""
        session = self.session
        found = session.log.committed_by(session.watcher)
        committed_claim = parse_claim(found.metadata)
        if found.offset is None:  # perhaps with its topic: step 3 of the next owner says
            raise ClaimLost("the group's offset is gone")
        if session.judge(committed_claim) is not Judgement.MINE:
            raise ClaimLost("an older run came back")
        if refresh or self.at != session.offset:
            session.commit_position(self.at)


def _now() -> int:
    return time.time_ns() // 1_000_000
