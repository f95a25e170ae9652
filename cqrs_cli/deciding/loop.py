"""Step 5 of the owner protocol: poll, decide, commit to Kafka, then apply to the shard."""

import time
from collections.abc import Iterator
from dataclasses import replace

from msgspec.structs import replace as replace_field

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions, Payloads
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.deferred_commands import DeferredCommands, deferred_records
from cqrs_cli.deciding.errors import explain_recreated_topic
from cqrs_cli.deciding.key_upkeep import KeyUpkeep
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.kafka.records import records_of
from cqrs_cli.kafka.write_errors import BatchLateError, BatchRefusedError, BatchTimeError, TopicRecreatedError
from cqrs_cli.observer import reached
from cqrs_cli.ownership.claim import after_batch
from cqrs_cli.ownership.loop import Loop
from cqrs_cli.ownership.poison_detection.attempts import Attempts
from cqrs_cli.ownership.signals import UnwritableBatch


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
        """`position`: the offset of the next command to decide. `drain_end`: the offset at which the loop ends because
        the partition splits; None if no split is due.

        Before a split, no deferred command is resubmitted, because its key may move to a partition that has no owner
        yet. This delays no command: a resubmitted command would get an offset after `drain_end`, and be decided after
        the split.
        """
        end_offsets = session.plan.end_offsets
        end_offset = None if end_offsets is None else end_offsets[session.partition]
        super().__init__(session, position, end_offset if drain_end is None else drain_end)
        self._is_draining = drain_end is not None
        self.aggregate = aggregate
        self.cache = cache
        self.attempts = attempts
        # The assigned keys are constant during a loop: a split takes place between two loops.
        assigned_keys = session.assigned_keys
        self.rules = replace(
            session.rules,
            partition_of=assigned_keys.partition_function(),
            forward_target_of=assigned_keys.forward_target_function(),
        )
        self.deferring = DeferredCommands(session, cache)
        self.upkeep = None
        if cache.keys is not None and drain_end is None:
            self.upkeep = KeyUpkeep(session, cache, cache.keys)
        self.codec, self.topic = session.log.codec, session.log.topics.commands
        self.source = self.topic, session.partition.number  # (topic, partition), for listeners
        self.commit_seconds = 0.0  # the time that the last commit took
        self.next_batch_at = 0.0  # the earliest time of the next batch, monotonic seconds
        self.next_apply_at = 0.0  # the time at which staged decisions are applied, monotonic seconds
        self.log_end = position  # the end of the commands log in the consumer's last response

    def start_polling(self) -> None:
        while self.end_offset is not None and self._is_due() and not self.is_stopping():
            self.end_offset = max(self.end_offset, self.deferring.resubmit(self.position))
        # No assignment if the loop ends at once: an assignment waits for the first fetch, half a second in an idle log.
        if self.is_running():
            self.follower = self.session.log.follow(self.session.consumer, "commands", self.position)

    def run_due_work(self) -> None:
        """Resubmit due deferred commands. Append a compaction tick to the keys topic when it is due."""
        if self._is_due():
            self.deferring.resubmit(self.position)
        if self.upkeep is not None and self.upkeep.is_due():
            self.upkeep.append_tick(self.position)

    def _is_due(self) -> bool:
        return not self._is_draining and self.deferring.is_due()

    def process_batch(self, records: list[Record]) -> None:
        if not self.remaining:
            records = records + self._poll_arrived(self.session.limit - len(records))
        self.decide_and_commit(records)
        timing, cache, now = self.session.timing, self.cache, time.monotonic()
        if cache.pending_count >= timing.apply_every or cache.is_full() or now >= self.next_apply_at:
            cache.flush()
            self.next_apply_at = now + timing.apply_interval

    def run_idle_work(self) -> None:
        """Apply staged decisions to the shard. Then re-wrap some keys under the current KEK, unless the loop ends."""
        self.cache.flush()
        if self.upkeep is not None and self.is_running():
            self.upkeep.rewrap(self.position)

    def poll(self) -> list[Record]:
        """Return a batch of commands; empty if no command arrived in time. If the log ends with control records, move
        `position` to the end of the log.
        """
        limit = self.session.limit
        if self.remaining:
            return self.remaining[:limit]
        timeout = 0.2 if self._is_draining else self.deferring.seconds_until_due(0.2)
        records = self._poll(limit, timeout, self.next_batch_at)
        if not records:
            self.position = max(self.position, self.log_end)
        return records

    def _poll_arrived(self, limit: int) -> list[Record]:
        """Return commands that arrived after the poll, while the batch waited for its turn among the partitions."""
        return self._poll(limit, 0) if limit > 0 else []

    def _poll(self, limit: int, timeout: float, collect_at: float = 0.0) -> list[Record]:
        """Poll at most `limit` commands, with the parameters of `Follower.poll`. Update `log_end`."""
        records = records_of(self.follower.poll(limit, timeout, collect_at))
        self.log_end = next(iter(self.follower.ends.values()), self.log_end)
        return records

    def decide_and_commit(self, records: list[Record]) -> int:
        """Decide as many records of a batch as fit into one transaction, and commit the decisions. Advance `position`.

        Return the number of decided records. Raises `UnwritableBatch` if the batch's own records prevent the commit.
        """
        session, timing = self.session, self.session.timing
        reached("decide.before")
        started_at = _now()
        downloaded = self.codec.fetch_payloads(self.topic, records)
        batch = session.batch = Batch(self.aggregate, self._context(downloaded.payloads))
        try:
            decided_count = self._commit(batch, downloaded.records, started_at)
        except BaseException:
            reached("batch.aborted")
            raise
        reached(
            "batch.after",
            records=records if decided_count == len(records) else records[:decided_count],
            now=_now(),
            reasons=batch.decisions.reason_counts,
        )
        self.attempts.report_errors(batch.decisions.tracebacks)
        end = records[decided_count - 1].offset + 1
        session.batch_limit = min(session.batch_limit * 2, timing.batch_limit)
        session.has_committed_batch = True
        self.remaining = (self.remaining or records)[decided_count:]
        self.position = end if self.remaining else max(end, self.log_end)
        spacing = 0.0 if self.remaining else timing.spacing_after(len(records), self.commit_seconds)
        self.next_batch_at = time.monotonic() + spacing
        return decided_count

    def _commit(self, batch: Batch, records: list[Record], started_at: int) -> int:
        """Decide the records in pieces, and commit all decisions in one transaction. Return the number of decided
        records.
        """
        session, decisions = self.session, batch.decisions
        decided_count = 0  # the number of decided records
        is_simple = True  # the transaction contains only events and outcomes
        try:
            with session.writer.batch(session.consumer) as transaction:
                with self.cache.reading():
                    for piece in self._pieces(batch, records):
                        if not decided_count:
                            reached("decide.after")
                        self.codec.upload(self.topic, piece.payloads)
                        transaction.write(piece)
                        reached(
                            "batch.piece",
                            source=self.source,
                            records=records,
                            start=decided_count,
                            outcomes=piece.outcomes,
                        )
                        decided_count += len(piece.outcomes)
                        is_simple = is_simple and not (piece.dead_letters or piece.forwards)
                    first_offset = records[0].offset
                    session.writer.append_deferred(deferred_records(decisions.deferral_changes), first_offset)
                    if (keys := self.cache.keys) is not None:
                        key_records = keys.records(decisions.data_keys)
                        session.writer.append_keys(keys.partition, key_records, first_offset)
                counts = session.counts.add_batch(decisions.counts, started_at, _now())
                end = records[decided_count - 1].offset + 1
                claim = after_batch(session.own_claim, counts, decided_count, end)
                # The outcomes contain the position, too. With records in other topics, only the group's position shows
                # whether an in-doubt transaction was committed.
                is_simple = is_simple and not (decisions.deferral_changes or decisions.data_keys)
                is_position_due = not is_simple or session.is_position_due(claim)
                transaction.set_position(end, claim.metadata(), is_position_due)
                commit_began_at = time.monotonic()
            self.commit_seconds = time.monotonic() - commit_began_at
        except TopicRecreatedError as error:
            raise explain_recreated_topic(error, session.partition, records[0].offset) from error
        except BatchRefusedError as error:
            raise _unwritable_batch(decisions, records[0].offset, error) from error
        if is_position_due:
            session.record_commit(end, claim)
        session.own_claim = claim
        commit_us = counts.commit_us + int(self.commit_seconds * 1_000_000)
        session.counts = replace_field(counts, commit_us=commit_us)
        self.cache.stage(decisions, end, *transaction.written)
        return decided_count

    def _pieces(self, batch: Batch, records: list[Record]) -> Iterator[Decisions]:
        """Decide the batch in pieces, and yield the decisions of each piece. The first piece has one record, the next
        pieces are larger. End when the batch reaches its limit of time, event bytes or changed states.
        """
        timing, max_states = self.session.timing, self.cache.max_waiting_states
        size, start = 1, 0  # of the piece: its number of records, and the index of its first record
        deadline = time.monotonic() + timing.batch_seconds
        while start < len(records):
            yield batch.decide_piece(records[start : start + size], timing.batch_bytes)
            start += size
            if (
                time.monotonic() > deadline
                or batch.event_bytes > timing.batch_bytes
                or len(batch.states) >= max_states
                or self.is_stopping()
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
            cache.greatest_id,
        )


def _unwritable_batch(decisions: Decisions, first_offset: int, error: BatchRefusedError) -> UnwritableBatch:
    """Return the error for a batch that a topic does not accept. `first_offset`: the offset of its first command."""
    is_late, has_refused_time = isinstance(error, BatchLateError), isinstance(error, BatchTimeError)
    size = sum(decisions.counts[status] for status in STATUSES)  # the number of decided commands
    is_undecidable = decisions.counts["failed"] == size and not has_refused_time
    return UnwritableBatch(first_offset, size, str(error), is_late, is_undecidable)


def _now() -> int:
    """Return the wall-clock time in ms."""
    return time.time_ns() // 1_000_000
