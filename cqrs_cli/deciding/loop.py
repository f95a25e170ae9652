"""Step 5 of the owner protocol: poll, decide, commit to Kafka, then apply to the shard."""

import time
from collections.abc import Iterator
from dataclasses import replace

from msgspec.structs import replace as replace_field

from cqrs_cli import failpoints
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions, Payloads
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.deferred_commands import DeferredCommands, deferred_records
from cqrs_cli.deciding.key_upkeep import KeyUpkeep
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.kafka.records import records_of
from cqrs_cli.kafka.write_errors import BatchLateError, BatchRefusedError, BatchTimeError, TopicRecreatedError
from cqrs_cli.ownership.claim import after_batch
from cqrs_cli.ownership.loop import Loop
from cqrs_cli.ownership.signals import BatchTooLarge
from cqrs_cli.ownership.trials.attempts import Attempts


class DecideLoop(Loop):
    """The loop of one owner, with a recovered shard."""

    session: OwnerSession

    def __init__(
        self,
        session: OwnerSession,
        aggregate: Aggregate,
        cache: StateCache,
        position: int,
        attempts: Attempts,
        drain_end: int | None = None,
    ) -> None:
        """`drain_end`: the offset at which the loop ends before the partition splits; None if no split is due.

        Before a split, no deferred command is resubmitted, because its key may move to a partition that has no owner
        yet. This delays nothing: a resubmitted command would get an offset after `drain_end`, so it would be decided
        after the split in any case.
        """
        targets = session.plan.targets
        target = None if targets is None else targets[session.partition]
        super().__init__(session, position, target if drain_end is None else drain_end)
        self._is_draining = drain_end is not None
        self.aggregate = aggregate
        self.cache = cache
        self.attempts = attempts
        assigned_keys = session.assigned_keys  # constant: a split takes place between loops
        self.rules = replace(
            session.rules,
            partition_of=assigned_keys.partition_of(),
            forward_target_of=assigned_keys.forward_target_of(),
        )
        self.deferring = DeferredCommands(session, cache, attempts.add_note)
        self.upkeep = None
        if cache.keys is not None and drain_end is None:
            self.upkeep = KeyUpkeep(session, cache, cache.keys)
        self.codec, self.topic = session.log.codec, session.log.topics.commands
        self.next_batch_at = 0.0  # the earliest time of the next batch, monotonic
        self.log_end = position  # the log's end, as last seen by the consumer

    def start_polling(self) -> None:
        while self.target is not None and self._is_due() and not self.stopping():
            self.target = max(self.target, self.deferring.resubmit(self.position))
        # Assign only if the loop runs: an assignment waits for the first fetch, half a second in an idle log.
        if self.is_running():
            self.follower = self.session.log.follow(self.session.consumer, "commands", self.position)

    def run_due_work(self) -> None:
        """Resubmit due deferred commands, and append a due tick, so that the broker compacts deleted keys."""
        if self._is_due():
            self.deferring.resubmit(self.position)
        if self.upkeep is not None and self.upkeep.is_due():
            self.upkeep.append_tick(self.position)

    def _is_due(self) -> bool:
        return not self._is_draining and self.deferring.is_due()

    def process_batch(self, records: list[Record]) -> None:
        if not self.remaining:
            records = records + self._poll_arrived(self.session.limit - len(records))
        decided_count = self.decide_and_commit(records)
        timing, cache = self.session.timing, self.cache
        is_small = decided_count < self.session.batch_limit // 10
        if cache.pending >= timing.apply_every or cache.is_full() or is_small:
            cache.flush()

    def run_idle_work(self) -> None:
        """Apply waiting decisions to the shard; then re-wrap keys under the current KEK, unless the loop ends."""
        self.cache.flush()
        if self.upkeep is not None and self.is_running():
            self.upkeep.rewrap(self.position)

    def poll(self) -> list[Record]:
        """Return a batch of commands, empty if no command arrived in time. Control records advance `position`."""
        limit = self.session.limit
        if self.remaining:
            return self.remaining[:limit]
        timeout = 0.2 if self._is_draining else self.deferring.seconds_until_due(0.2)
        records = self._poll(limit, timeout, self.next_batch_at)
        if not records:
            self.position = max(self.position, self.log_end)
        return records

    def _poll_arrived(self, limit: int) -> list[Record]:
        """Return the commands that arrived after the poll, while the batch waited for its turn among the partitions."""
        return self._poll(limit, 0) if limit > 0 else []

    def _poll(self, limit: int, timeout: float, collect_at: float = 0.0) -> list[Record]:
        records = records_of(self.follower.poll(limit, timeout, collect_at))
        self.log_end = next(iter(self.follower.ends.values()), self.log_end)
        return records

    def decide_and_commit(self, records: list[Record]) -> int:
        """Decide as many records of a batch as fit into one transaction, and commit the decisions.

        Return the number of decided records; raises `BatchTooLarge` if the batch's own records prevent the commit.
        """
        session, timing = self.session, self.session.timing
        failpoints.reached("decide.before")
        started_at = _now()
        downloaded = self.codec.fetch_payloads(self.topic, records)
        batch = session.batch = Batch(self.aggregate, self._context(downloaded.payloads))
        try:
            decided = self._commit(batch, downloaded.records, started_at)
        except BaseException:
            session.measures.counts["transactions_aborted"] += 1
            raise
        session.measures.record_commit(
            records if decided == len(records) else records[:decided], _now(), batch.decisions.reason_counts
        )
        self.attempts.report_errors(batch.decisions.tracebacks)
        end = records[decided - 1].offset + 1
        session.batch_limit = min(session.batch_limit * 2, timing.batch_limit)
        session.has_committed_batch = True
        session.offset = end
        self.remaining = (self.remaining or records)[decided:]
        self.position = end if self.remaining else max(end, self.log_end)
        is_backlog_small = 1 < len(records) < timing.backlog_size and not self.remaining
        self.next_batch_at = time.monotonic() + (timing.batch_spacing if is_backlog_small else 0.0)
        return decided

    def _commit(self, batch: Batch, records: list[Record], started_at: int) -> int:
        session, decisions, decided = self.session, batch.decisions, 0
        try:
            with session.writer.batch(session.consumer) as transaction:
                with self.cache.reading():
                    for piece in self._pieces(batch, records):
                        if not decided:
                            failpoints.reached("decide.after")
                        self.codec.upload(self.topic, piece.payloads)
                        transaction.write(piece)
                        decided += len(piece.outcomes)
                    session.writer.append_deferred(deferred_records(decisions.deferral_changes))
                    if (keys := self.cache.keys) is not None:
                        key_records = keys.records(decisions.data_keys)
                        session.writer.append_keys(keys.partition, key_records, records[0].offset)
                counts = session.counts.add_batch(decisions.counts, started_at, _now())
                end = records[decided - 1].offset + 1
                claim = after_batch(session.own_claim, counts, decided, end)
                transaction.set_position(end, claim.metadata())
                commit_began_at = time.monotonic()
            commit_us = int((time.monotonic() - commit_began_at) * 1_000_000)
        except TopicRecreatedError as error:
            name, number = session.partition
            raise ContradictionError(
                f"{error} partition {number} was deleted and created again while it was written to",
                "find out why; to continue without its records: "
                f"cqrs run --accept-loss {format_position(number, records[0].offset, name)}",
            ) from error
        except BatchRefusedError as error:
            is_late, has_refused_time = isinstance(error, BatchLateError), isinstance(error, BatchTimeError)
            size = sum(decisions.counts[status] for status in STATUSES)
            is_undecidable = decisions.counts["failed"] == size and not has_refused_time
            raise BatchTooLarge(records[0].offset, size, str(error), is_late, is_undecidable) from error
        session.own_claim = claim
        session.counts = replace_field(counts, commit_us=counts.commit_us + commit_us)
        self.cache.stage(decisions, end, *transaction.written)
        return decided

    def _pieces(self, batch: Batch, records: list[Record]) -> Iterator[Decisions]:
        """Decide and yield pieces of the batch, small pieces first, until the batch has taken enough time or memory."""
        timing, size, start, max_states = self.session.timing, 1, 0, self.cache.max_waiting
        deadline = time.monotonic() + timing.batch_seconds
        while start < len(records):
            yield batch.decide_piece(records[start : start + size], timing.batch_bytes)
            start += size
            if (
                time.monotonic() > deadline
                or batch.event_bytes > timing.batch_bytes
                or len(batch.states) >= max_states
                or self.stopping()
            ):
                return
            size = min(4 * size, timing.piece_size)

    def _context(self, payloads: Payloads) -> BatchContext:
        cache, attempts = self.cache, self.attempts
        return self.rules.batch_context(
            cache.state,
            cache.find_dedup_entry,
            _now,
            cache.positions.clock,
            self.deferring.deferrals(),
            payloads,
            attempts.force_failed,
            attempts.poison_reasons,
            None if cache.keys is None else cache.keys.key_of,
        )


def _now() -> int:
    return time.time_ns() // 1_000_000
