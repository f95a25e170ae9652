"""Step 5 of the owner protocol: poll, decide, commit to Kafka, then apply to the shard."""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions, Payloads
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.deferring import Deferring, values
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, is_denied
from cqrs_cli.kafka.records import records_of
from cqrs_cli.kafka.topics.partitioner import partition_function
from cqrs_cli.kafka.write_errors import BatchLateError, BatchRefusedError, BatchTimeError, TopicMadeAgainError
from cqrs_cli.ownership.claim import Judgement, parse_claim, progressed
from cqrs_cli.ownership.signals import BatchTooLarge, ClaimLost
from cqrs_cli.ownership.trials.attempts import Attempts
from cqrs_cli.ownership.trials.gate import GATE
from cqrs_cli.payloads.exchange import PayloadExchange


class Loop:
    """One owner at work, over a recovered shard."""

    def __init__(
        self, session: OwnerSession, aggregate: Aggregate, cache: StateCache, at: int, attempts: Attempts
    ) -> None:
        self.session = session
        self.aggregate = aggregate
        self.cache = cache
        self.at = at  # the offset of the next command
        self.attempts = attempts
        self.deferring = Deferring(session, cache)
        self.payloads = PayloadExchange(session.plan.connection.payloads, session.log.topics.commands)
        self.next_batch_at = 0.0  # monotonic
        self.left: list[Record] = []  # polled, but not in the batch that was cut
        self.log_end = at  # where the consumer has met the log's end
        self.met_end = False
        self.stopping: Callable[[], bool] = lambda: False

    def run(self, stopping: Callable[[], bool]) -> None:
        """Decide until the target is reached or `stopping()` says so."""
        self.stopping = stopping
        session, cache, timing = self.session, self.cache, self.session.timing
        topic, targets = session.log.topics.commands, session.plan.targets
        # Without it this client, which has talked to the group only, finds the partition's leader a second later.
        session.consumer.list_topics(topic, timeout=REQUEST_TIMEOUT)
        session.consumer.assign([TopicPartition(topic, session.partition.number, self.at)])
        target = None if targets is None else targets[session.partition]
        while target is not None and self.deferring.is_due() and not stopping():
            target = max(target, self.deferring.resubmit(self.at))
        checked = refreshed = time.monotonic()
        while not stopping() and (target is None or self.at < target):
            if self.deferring.is_due():
                self.deferring.resubmit(self.at)
            records = self.poll()
            if records:
                with self._admitted(records):
                    decided = self.decide_and_commit(records)
                if (
                    cache.pending >= timing.apply_every
                    or cache.is_full()
                    or decided < session.batch_limit // 10
                ):
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
        consumer, limit = self.session.consumer, self.session.limit
        if self.left:
            return self.left[:limit]
        first = consumer.poll(self.deferring.patience(0.2))
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
                self.log_end, self.met_end = int(message.offset() or 0), True
            elif is_denied(error):
                raise KafkaException(error)  # the supervisor finds out which ACL it was
            else:  # also where the records are gone: step 3 of the next owner says what was lost
                raise self.session.log.failure("commands", error)
        records = records_of([message for message in messages if message.error() is None])
        if not records:
            self.at = max(self.at, self.log_end)
        return records

    @contextmanager
    def _admitted(self, records: list[Record]) -> Iterator[None]:
        """Let a batch through the process's gate; a suspect goes alone, and is announced first."""
        session, trial = self.session, self.session.mine.trial
        if trial is None or trial.limit > 1:
            with GATE.shared():
                yield
            return
        with GATE.alone():
            session.mine = replace(session.mine, trial=trial.announce(records[0].offset))
            session.commit_position(self.at)
            yield

    def decide_and_commit(self, records: list[Record]) -> int:
        """Decide a batch and commit what it comes to: as many of the records as one transaction should have.

        Returns how many; raises `BatchTooLarge` if the batch's own records prevent the commit.
        """
        session, timing = self.session, self.session.timing
        failpoints.reached("decide.before")
        began = _now()
        fetched = self.payloads.fetch(records)
        batch = session.batch = Batch(self.aggregate, self._context(fetched.payloads))
        try:
            decided = self._commit(batch, fetched.records, began)
        except BaseException:
            session.measures.aborted += 1
            raise
        session.measures.committed(
            records if decided == len(records) else records[:decided], _now(), batch.done.reasons
        )
        self.attempts.tell_raised(batch.done.raised)
        end = records[decided - 1].offset + 1
        session.batch_limit = min(session.batch_limit * 2, timing.batch_limit)
        session.useful = True
        session.offset = end
        self.left = (self.left or records)[decided:]
        self.at = end if self.left else max(end, self.log_end)
        waits = 1 < len(records) < timing.backlog and not self.left
        self.next_batch_at = time.monotonic() + (timing.batch_spacing if waits else 0.0)
        return decided

    def _commit(self, batch: Batch, records: list[Record], began: int) -> int:
        session, decisions, claim, decided = self.session, batch.done, self.session.mine, 0

        def pieces() -> Generator[Decisions, None, None]:
            nonlocal decided
            with self.cache.reading():
                for piece in self._pieces(batch, records):
                    if not decided:
                        failpoints.reached("decide.after")
                    self.payloads.store(piece.payloads)
                    yield piece
                    decided += len(piece.outcomes)
                session.writer.note_deferred(values(decisions.deferred))

        def position() -> tuple[int, str]:
            nonlocal claim
            counts = session.counts.add(decisions.counts, began, _now())
            end = records[decided - 1].offset + 1
            claim = progressed(claim, counts, decided, end)
            return end, claim.metadata()

        try:
            with closing(pieces()) as deciding:  # so that the view ends, too, if producing fails
                written = session.writer.commit(deciding, session.consumer, position)
        except TopicMadeAgainError as error:
            name, number = session.partition
            raise ContradictionError(
                f"{error} partition {number} was deleted and created again while it was written to",
                "find out why; to go on without what it held: "
                f"cqrs run --accept-loss {name}:{number}@{records[0].offset}",
            ) from error
        except BatchRefusedError as error:
            late, untimely = isinstance(error, BatchLateError), isinstance(error, BatchTimeError)
            size = sum(decisions.counts[status] for status in STATUSES)
            undecidable = decisions.counts["failed"] == size and not untimely
            raise BatchTooLarge(records[0].offset, size, str(error), late, undecidable) from error
        session.mine, session.counts = claim, claim.counts
        self.cache.stage(decisions, records[decided - 1].offset + 1, *written)
        return decided

    def _pieces(self, batch: Batch, records: list[Record]) -> Iterator[Decisions]:
        """Decide piece by piece, the first ones small, until the batch has taken enough time or memory."""
        timing, size, start, most_states = self.session.timing, 1, 0, self.cache.most_waiting
        until = time.monotonic() + timing.deciding
        while start < len(records):
            yield batch.decide_piece(records[start : start + size], timing.batch_bytes)
            start += size
            if (
                time.monotonic() > until
                or batch.event_bytes > timing.batch_bytes
                or len(batch.states) >= most_states
                or self.stopping()
            ):
                return
            size = min(4 * size, timing.piece)

    def _context(self, payloads: Payloads) -> BatchContext:
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
            self.attempts.refused,
            self.attempts.blamed,
            self.deferring.deferrals(),
            payloads,
            self.payloads.threshold,
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
        acquitted = session.mine.trial is not None and self.met_end  # the suspects are decided, or gone
        if acquitted:
            session.mine = replace(session.mine, trial=None)
        if refresh or acquitted or self.at != session.offset:
            session.commit_position(self.at)


def _now() -> int:
    return time.time_ns() // 1_000_000
