"""Waiting times of an owner and of the driver of a run, and the sizes of an owner's batches."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cqrs_cli.kafka.transactional import TRANSACTION_TIMEOUT
from cqrs_cli.kafka.writer import PRODUCE_TIMEOUT
from cqrs_cli.state.limits import Limits

#: The maximal number of decisions that wait to be applied to the shard. Larger changes with random ids dirty many
#: pages, and LMDB then keeps hundreds of MB of anonymous memory (measured: 100,000 commands cost 200 MB per shard, and
#: save 5 % of the time per id).
APPLY_EVERY = 5_000


@dataclass(frozen=True, slots=True)
class Timing:
    """Waiting times and batch sizes, a part of a run's plan. Times are in seconds."""

    # The owner's clock. Deferred commands are due by this clock until the broker's clock is known.
    clock: Callable[[], float] = time.time

    # After this time without a key record an owner appends one more, so that the last records of the keys topic can be
    # compacted: a broker closes a segment when a record arrives that is an hour younger than the segment's first
    # record.
    compaction_tick_after: float = 3660.0

    # The most keys that an idle owner re-wraps under the current KEK in one transaction: commands wait for it.
    rewrap_batch_size: int = 1_000

    # Timeout of each call of a transaction. The broker aborts the transaction after the same time.
    transaction_timeout: float = TRANSACTION_TIMEOUT
    produce_timeout: float = PRODUCE_TIMEOUT

    # Interval at which an idle owner checks the claim, and commits a position that only control records moved.
    idle_check_interval: float = 1.0

    # Interval at which an owner commits its position, if its claim stays the same: the outcomes contain the position,
    # too, and a transaction without it costs a broker 40 % less. An idle owner commits it after `idle_check_interval`.
    position_interval: float = 0.5

    # Interval at which an idle owner commits its offset again: an offset expires after 7 days by default.
    offset_refresh_interval: float = 24 * 3600.0

    # After a batch of more than one command and fewer than `backlog_size`, the owner waits before the next batch, as
    # long as the commit took, but at most `batch_spacing`. Such a batch shows that commands arrive faster than commits
    # return, and every transaction costs the broker the same, large or small. A busy broker commits slowly, so it gets
    # fewer and larger transactions. At 1,000 commands/s with 4 partitions on two cores that the broker shared, p50 was
    # 7 ms, and 9 ms with a constant wait of 8 ms; without a wait, p90 doubled. After a batch of one command there is no
    # wait, so at lower rates no command is delayed.
    batch_spacing: float = 0.008
    backlog_size: int = 1000

    # The most commands in one transaction.
    batch_limit: int = 5_000

    # Commands that are decided and produced at a time inside a batch. A batch ends early after a piece if it has taken
    # `batch_seconds`, or if its events have `batch_bytes`: the transaction is open and the events are in memory
    # until its end.
    piece_size: int = 250
    batch_seconds: float = 0.3
    batch_bytes: int = 16 * 1024 * 1024

    # Decisions that may wait to be applied to the shard, and seconds after which they are applied. Small batches share
    # one LMDB transaction: each transaction costs an owner 0.15 ms, a fifth of its work on a small batch.
    apply_every: int = APPLY_EVERY
    apply_interval: float = 0.1

    # Timeouts for waiting for other processes when a shard is opened.
    shard_limits: Limits = field(default_factory=Limits)

    # The pause before another owner starts, doubled after each owner in a row that decided nothing. A successor claims
    # within milliseconds of its fence, so the claim is judged only after the first pause.
    first_restart_delay: float = 0.05
    max_restart_delay: float = 5.0

    # The pause after an active owner was fenced: its successor has this time to claim. If the owner fenced its
    # successor in turn, the successor would suspect the waiting commands, and decide them in parts (measured: 510 in
    # 6.4 s). On busy cores a successor needs more than a second from its fence to its claim.
    fenced_pause: float = 3.0

    # Interval at which the claim is read in a pause.
    pause_claim_interval: float = 0.25

    # A call to the broker that is overdue for this long never returns: every call should end by itself after its
    # timeout.
    overdue_timeout: float = 2.0

    # If another process has held a shard in the middle of a change for this long, it will never release the shard.
    stuck_shard_timeout: float = 30.0

    # A command that is being decided for `slow_after` seconds is reported. After `decide_timeout`, the setting of this
    # name, its task is ended.
    slow_after: float = 5.0
    decide_timeout: float = 60.0

    # If a task has not checked its owners for this long, the whole process was paused. Then all timeouts start again,
    # and calls to the broker get this time to return.
    pause_threshold: float = 5.0

    # Silence of the active run after which a standby run takes over; None: this is no standby run.
    standby_timeout: float | None = None

    # Every run sends heartbeats often enough for standby runs with this `standby_timeout`.
    heartbeat_timeout: float = 2.0

    # How long a partition must be missing before the run ends: a broker that has just come back lacks the
    # other brokers' metadata for some time.
    missing_timeout: float = 20.0

    # How long an inconsistency in steps 3 and 4 must persist before the run ends. A broker that has just
    # rejoined its cluster may still consider itself the leader, and serve a truncated log.
    inconsistency_timeout: float = 20.0

    # How long an inconsistency must persist while a replica of the partition's logs is out of sync, because leaders
    # then change.
    out_of_sync_timeout: float = 120.0

    # An error that was last seen this long ago no longer counts.
    error_reset_after: float = 30.0

    # A checkpoint store that has not answered for this long is given up, because the log is also available.
    checkpoint_answer_timeout: float = 60.0

    # Longest time until a failed checkpoint is tried again.
    checkpoint_retry: float = 60.0

    # A process that writes checkpoints is killed after this time.
    checkpoint_deadline: float = 3600.0

    # Owners whose parent process has died have this long to end and to close their shards.
    orphan_timeout: float = 10.0

    # Interval at which the driver reads the claims.
    progress_interval: float = 0.5

    # A poll of the progress that takes longer is waiting for a broker. Lost tasks are submitted again without its
    # result: the previous poll shows whether they made progress.
    progress_poll_timeout: float = 1.0

    # After this time without progress, the driver checks a partition for an open transaction that may hide its
    # commands, and repeats the check at this interval.
    hidden_check_interval: float = 5.0

    # A partition whose owner has sent no report for this long is not ready. Reports come several times a second.
    report_timeout: float = 10.0

    # A task is submitted again if all its owners have sent no report for this long beyond `decide_timeout`: by then its
    # own watchdog would have ended it, so its worker is dead, and Spark has not noticed.
    silence_timeout: float = 30.0

    # Every partition must be claimed within this time. Starting a rebuild takes less time; a partition whose
    # worker is missing is never claimed.
    claim_deadline: float = 60.0

    # Interval at which the driver checks for task slots that have joined or are lost.
    slot_check_interval: float = 2.0

    # If a task has found no slot for this long, the run starts again with the available slots.
    slot_timeout: float = 10.0

    # A task on a drained executor has this time to find another slot, because an executor may be started as a
    # replacement. Then the run starts again with the available slots. If the executor is killed earlier, its tasks are
    # lost.
    drain_timeout: float = 20.0

    # The pause before a lost task is submitted again, doubled up to `longest_backoff`.
    first_backoff: float = 0.1
    longest_backoff: float = 30.0

    # Owners that are stopped have this long to close their shards cleanly.
    close_timeout: float = 5.0

    # The longest time between two claims of a later run. Without a claim for this long, the later run counts as dead,
    # or as a run that takes over no further partition. Its owners fence almost at the same time, except for shards that
    # are not ready, and for parents in a repartitioning, which wait for their children (measured: 35 s on busy cores).
    # Until then this run decides for its remaining partitions.
    next_claim_timeout: float = 60.0

    # When a run is stopped, a broker that does not answer within this time counts as lost, and nothing is retired: each
    # step would wait for its own timeout, 80 s in all.
    shutdown_answer_timeout: float = 3.0

    # Longest time for retiring a run: without brokers a call may never return (`TransactionalWriter.overdue_seconds`).
    retire_deadline: float = 2 * TRANSACTION_TIMEOUT

    def spacing_after(self, batch_size: int, commit_seconds: float) -> float:
        """Return the seconds between a batch, whose commit took `commit_seconds`, and the next batch."""
        return min(self.batch_spacing, commit_seconds) if 1 < batch_size < self.backlog_size else 0.0


class ErrorDuration:
    """Measures how long an error persists. After `reset_after` seconds without the error, it starts from zero again."""

    def __init__(self, reset_after: float) -> None:
        self._reset_after = reset_after
        self._first_at = self._last_at = -reset_after

    def persists_for(self, seconds: float) -> bool:
        """Record that the error occurs now; return True once it has occurred for this many seconds."""
        now = time.monotonic()
        if now - self._last_at >= self._reset_after:
            self._first_at = now
        self._last_at = now
        return now - self._first_at >= seconds
