"""One tenure of one partition: the owner protocol, from fence to loop. The numbers are those of the design.

A tenure is never patched: any error ends it, its clients are dropped, and the owner begins another one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import Context, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, bulk_consumer, consumer, is_denied
from cqrs_cli.kafka.offsets import committed
from cqrs_cli.kafka.readers import StalledError, read_failure, record_of, watermarks
from cqrs_cli.kafka.topics.partitioner import partition_for
from cqrs_cli.kafka.topics.topics import KINDS
from cqrs_cli.kafka.writer import BatchLateError, BatchRefusedError, FencedWriter, TopicMadeAgainError
from cqrs_cli.owner.claim import Accepted, Claim, Judgement, judge, parse_claim, succeed
from cqrs_cli.owner.explain import explain_stall
from cqrs_cli.owner.log_state import check_gap, check_last_decided, read_log_state
from cqrs_cli.owner.plan import Partition, Plan
from cqrs_cli.owner.position import position
from cqrs_cli.owner.recover import fold_events, fold_outcomes
from cqrs_cli.owner.signals import BatchTooLarge, ClaimLost, Superseded
from cqrs_cli.owner.state_cache import APPLY_EVERY, StateCache
from cqrs_cli.state.store import Store

#: How often an idle owner looks at the claims, and commits a position that only control records moved, in seconds.
IDLE_LOOK = 1.0

#: The group's offset is committed again this often, so that it never expires (7 days by default), in seconds.
REFRESH = 24 * 3600.0

#: Where a batch of a few shows that commands arrive faster than commits return, the next one begins so much later, in
#: seconds: a transaction costs the broker the same whatever is in it. At 1,000 commands/s on two cores with the broker
#: beside, p90 fell from 40 to 20 ms; below that rate nothing waits.
PACE = 0.008

#: From so many commands on a batch is a backlog, and nothing waits either.
BACKLOG = 1000

#: Commands in one transaction, at most.
MOST_COMMANDS = 5_000


class Owner:
    """Steps 1 to 5 for one partition. Use as a context manager: the clients go with it."""

    def __init__(
        self,
        plan: Plan,
        partition: Partition,
        aggregate: Aggregate,
        store: Store,
        mine: Claim,
        batch_limit: int,
        refused: frozenset[int],
    ) -> None:
        self.plan = plan
        self.partition = partition
        self.aggregate = aggregate
        self.store = store
        self.mine = mine
        self.batch_limit = batch_limit  # commands in a batch
        self.refused = refused
        self.ground = plan.grounds[partition.aggregate]
        self.topics = self.ground.topics
        self.number = partition.number
        self.counts = mine.counts
        self.consumer: Consumer = bulk_consumer(
            plan.connection, group=self.topics.group, fetch_wait_max_ms=500, fetch_min_bytes=1
        )
        self.watcher: Consumer = consumer(
            plan.connection, group=self.topics.group, isolation="read_uncommitted"
        )
        least = min(self.ground.max_bytes[kind] for kind in ("events", "outcomes", "dead-letters"))
        self.writer = FencedWriter(plan.connection, self.topics, self.number, least)
        self.committed: int | None = None
        self.claimed = False
        self.recovered = False  # whether the shard is level with the log
        self.useful = False  # whether it has decided anything
        self.at = 0
        self.next_batch_at = 0.0  # when the next batch may begin, monotonic

    def __enter__(self) -> "Owner":
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()
        self.watcher.close()

    def fence(self) -> None:
        """1: fence the previous owner; its open transaction is settled."""
        failpoints.reached("fence.before")
        self.writer.fence()
        failpoints.reached("fence.after")

    def claim(self) -> None:
        """2: judge the claim that stands, waiting for pending commits, and put mine in its place."""
        found = committed(self.consumer, self.topics.commands, [self.number])[self.number]
        committed_claim = parse_claim(found.metadata)
        self._judge(committed_claim)
        self.committed_claim = committed_claim
        self.committed = found.offset
        self.mine = succeed(self.mine, committed_claim, self.store.token())
        if committed_claim and (committed_claim.run_epoch, committed_claim.run) == (
            self.mine.run_epoch,
            self.mine.run,
        ):
            self.counts = committed_claim.counts  # what my run has decided, also in an attempt that was lost
        failpoints.reached("claim.before")
        if found.offset is not None:
            self._commit_position(found.offset)
            self.claimed = True
        failpoints.reached("claim.after")

    def position(self) -> None:
        """3: where to go on, judged from the log; the topic and its partitions are checked only now."""
        # All of them must be there.
        bounds = {kind: self._uncommitted(self.topics.name(kind)) for kind in KINDS}
        accept, connection = self.plan.accept_loss.get(self.partition), self.plan.connection
        with self._reading():
            log, self.last = read_log_state(
                connection, self.ground, self.number, bounds, self.committed, self.committed_claim
            )
            self.at = position(log, accept)
            if self.at != accept:
                check_last_decided(log)
                self.at = check_gap(connection, log, self.at)
        claimed, accepted = self.mine, self.mine.accepted
        if self.at == accept:
            accepted = Accepted(self.at, bounds["events"], bounds["outcomes"][1])
        self.mine = replace(
            self.mine,
            topic_id=log.topic_id,
            other_ids=log.other_ids,
            partitions=log.partitions,
            accepted=accepted,
        )
        failpoints.reached("position.before")
        if not self.claimed or self.at != self.committed or self.mine != claimed:
            self._commit_position(self.at)
            self.claimed = True
        failpoints.reached("position.after")

    def recover(self) -> None:
        """4: bring the shard up to the log and make it mine."""
        self.store.take_ownership(self.mine.token, self.store.token())
        failpoints.reached("recover.taken")
        # It reads the positions, before the log's end is asked for.
        self.cache = StateCache(self.aggregate, self.store, self.mine.token)
        outcomes = self._uncommitted(self.topics.outcomes)
        events = self._uncommitted(self.topics.events)
        self.writer.expect(events[1], outcomes[1])
        connection, number = self.plan.connection, self.number
        with self._reading():
            accepted, window = self.mine.accepted, self.plan.window
            fold_events(connection, self.aggregate, self.topics, number, self.cache, events, accepted)
            failpoints.reached("recover.events")
            fold_outcomes(
                connection,
                self.topics,
                number,
                self.cache,
                outcomes,
                self.last,
                window,
                self.at,
                accepted,
            )
        self.cache.fold(self.cache.positions._replace(commands=self.at))
        self.store.set_code_digest(self.aggregate.code_digest, self.mine.token)
        self.recovered = True
        failpoints.reached("recover.after")

    def loop(self, stopping: Callable[[], bool]) -> None:
        """5: poll, decide, commit, apply, until the target is reached or `stopping()` says so."""
        # without it this client, which has talked to the group only, finds the partition's leader a second later
        self.consumer.list_topics(self.topics.commands, timeout=REQUEST_TIMEOUT)
        self.consumer.assign([TopicPartition(self.topics.commands, self.number, self.at)])
        target = None if self.plan.targets is None else self.plan.targets[self.partition]
        looked = refreshed = time.monotonic()
        while not stopping() and (target is None or self.at < target):
            records = self.poll()
            if records:
                self._decide_and_commit(records)
                if self.cache.pending >= APPLY_EVERY or len(records) < self.batch_limit // 10:
                    self.cache.flush()
                looked = time.monotonic()
                continue
            self.cache.flush()
            if (now := time.monotonic()) - looked >= IDLE_LOOK:
                self._look(refresh=now - refreshed > REFRESH)
                looked = now
        self.cache.flush()
        if self.at != self.committed:
            self._commit_position(self.at)

    def poll(self) -> list[Record]:
        """A batch of commands, empty when none came in a moment; moves `at` past control records."""
        first = self.consumer.poll(0.2)
        if first is None:
            return []
        if (early := self.next_batch_at - time.monotonic()) > 0:
            time.sleep(early)
        return self._records(
            [first, *self.consumer.consume(self.batch_limit - 1, 0)] if self.batch_limit > 1 else [first]
        )

    def _records(self, messages: list[Message]) -> list[Record]:
        records: list[Record] = []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(record_of(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                self.at = max(self.at, int(message.offset() or 0))
            elif is_denied(error):
                raise KafkaException(error)  # the owner finds out which ACL it was
            else:  # also where the records are gone: step 3 of the next tenure says what was lost
                raise read_failure(self.plan.connection, self.topics.commands, self.number, error)
        return records

    def _decide_and_commit(self, records: list[Record]) -> None:
        failpoints.reached("decide.before")
        began = _now()
        with self.cache.reading():
            decisions = decide_batch(self.aggregate, records, self._context())
        end = records[-1].offset + 1
        failpoints.reached("decide.after")
        counts = self.counts.add(decisions.counts, began, _now())
        self._commit(decisions, records, end, replace(self.mine, counts=counts).metadata())
        self.batch_limit = min(self.batch_limit * 2, MOST_COMMANDS)
        self.useful = True
        self.counts = counts
        self.committed = end
        self.at = max(self.at, end)
        self.next_batch_at = time.monotonic() + (PACE if 1 < len(records) < BACKLOG else 0.0)

    def _commit(self, decisions: Decisions, records: list[Record], end: int, metadata: str) -> None:
        try:
            written = self.writer.commit(
                decisions.events, decisions.outcomes, decisions.dead_letters, self.consumer, end, metadata
            )
        except TopicMadeAgainError as error:
            what = f"{error} partition {self.number} was deleted and created again while it was written to"
            place = f"{self.partition.aggregate}:{self.number}@{records[0].offset}"
            raise ContradictionError(
                what, f"find out why; to go on without what it held: cqrs run --accept-loss {place}"
            ) from error
        except BatchRefusedError as error:
            late, undecidable = isinstance(error, BatchLateError), decisions.counts["failed"] == len(records)
            raise BatchTooLarge(records[0].offset, len(records), str(error), late, undecidable) from error
        self.cache.stage(decisions, end, written.events, written.outcomes)

    def _context(self) -> Context:
        partitioner, partitions = self.plan.partitioner, self.ground.partitions
        return Context(
            self.number,
            self.cache.state,
            self.cache.remembered,
            _now,
            None if partitioner == "off" else lambda key: partition_for(partitioner, key, partitions) or 0,
            self.topics.commands,
            self.plan.window,
            self.cache.positions.clock,
            self.ground.max_bytes["events"],
            self.refused,
        )

    def _look(self, refresh: bool) -> None:
        """Idle: an owner that commits nothing would never notice that it was fenced."""
        found = committed(self.watcher, self.topics.commands, [self.number])[self.number]
        committed_claim = parse_claim(found.metadata)
        if found.offset is None:  # perhaps with its topic: step 3 of the next tenure says
            raise ClaimLost("the group's offset is gone")
        if self._judge(committed_claim) is not Judgement.MINE:
            raise ClaimLost("an older run came back")
        if refresh or self.at != self.committed:
            self._commit_position(self.at)

    def standing_now(self) -> Claim | None:
        """The claim that stands, read without waiting for pending commits; raises `KafkaException`."""
        found = committed(self.watcher, self.topics.commands, [self.number])
        return parse_claim(found[self.number].metadata)

    def present_claim(self) -> Claim:
        """My claim with what has been decided under it."""
        return replace(self.mine, counts=self.counts)

    def _judge(self, committed_claim: Claim | None) -> Judgement:
        judgement = judge(self.mine, committed_claim)
        if judgement.ends:
            raise Superseded(judgement, committed_claim)
        return judgement

    def _commit_position(self, offset: int) -> None:
        self.writer.commit_position(self.consumer, offset, self.present_claim().metadata())
        self.committed = offset

    def _uncommitted(self, topic: str) -> tuple[int, int]:
        """(start, high watermark): a read_committed client would give the last stable offset."""
        return watermarks(self.watcher, topic, self.number)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Names the transaction that hides a log's end; raises `KafkaException` if it is the broker that is gone."""
        try:
            yield
        except StalledError as error:
            self._uncommitted(self.topics.outcomes)
            raise explain_stall(self.plan.connection, self.topics, self.number, error) from error


def _now() -> int:
    return time.time_ns() // 1_000_000
