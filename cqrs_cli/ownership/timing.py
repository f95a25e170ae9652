"""The times that an owner and the driver of a run wait, and the amounts that an owner does at once."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from cqrs_cli.kafka.transactional import TRANSACTION_TIMEOUT
from cqrs_cli.kafka.writer import PRODUCE_TIMEOUT
from cqrs_cli.state.shard import Limits

#: Commands that may wait to be applied. Larger changes with random ids dirty many pages, and LMDB then keeps
#: hundreds of MB of anonymous memory (measured: 100,000 cost 200 MB a shard and 5 % less time an id).
APPLY_EVERY = 5_000


@dataclass(frozen=True, slots=True)
class Timing:
    """Part of a run's plan. Times are in seconds."""

    # The owner's clock, by which deferred commands come due, as far as the broker's is not known.
    clock: Callable[[], float] = time.time

    # An owner lets the last records of its keys be compacted by one more, this long after them: brokers close a segment
    # of the keys topic with the first record that is an hour younger than its first one.
    keys_beat_after: float = 3660.0

    # The most keys that an idle owner puts under another master key in one transaction: commands wait meanwhile.
    keys_at_once: int = 1_000

    # Every call of a transaction has this time to itself; the broker aborts the transaction after it.
    transaction_timeout: float = TRANSACTION_TIMEOUT
    produce_timeout: float = PRODUCE_TIMEOUT

    # An idle owner looks at the claims this often, and commits a position that only control records moved.
    idle_check: float = 1.0

    # An idle owner commits its offset again this often: an offset expires after 7 days by default.
    offset_refresh: float = 24 * 3600.0

    # After a batch of more than one command and fewer than `backlog`, the next batch begins this much later: commands
    # arrive faster than commits return, and a transaction costs the broker the same whatever is in it. At 1,000
    # commands/s on two cores that the broker shared, p90 fell from 40 to 20 ms; below that rate nothing waits.
    batch_spacing: float = 0.008
    backlog: int = 1000

    # The most commands in one transaction.
    batch_limit: int = 5_000

    # Commands that are decided and produced at a time inside it. A batch ends early after a piece if deciding has taken
    # this long, or if the events have this many bytes: the transaction is open meanwhile, and events are in memory.
    piece: int = 250
    deciding: float = 0.3
    batch_bytes: int = 16 * 1024 * 1024

    # Decisions that may wait to be applied to the shard.
    apply_every: int = APPLY_EVERY

    # Opening a shard waits this long for other processes.
    shard: Limits = field(default_factory=Limits)

    # The pause before an owner begins again, doubled after each one in a row that decided nothing. A successor claims
    # within milliseconds of its fence, so the claim is judged only after the first pause.
    first_pause: float = 0.05
    longest_pause: float = 5.0

    # The pause of an owner at work that was fenced: its successor has this time to claim. To fence it back would let it
    # suspect the commands that wait, and decide them in parts (measured: 510 in 6.4 s). On busy cores a successor needs
    # more than a second from its fence to its claim.
    fenced_pause: float = 3.0

    # The claim is read this often in a pause.
    claim_check: float = 0.25

    # A call to the broker that is overdue for this long never returns: each should end by itself after its timeout.
    overdue: float = 2.0

    # A shard that another process has held in the middle of a change for this long is not let go any more.
    stuck: float = 30.0

    # A command that is being decided for this long is named, and after the second time its task is ended. The setting
    # `decide_timeout` is the second one.
    slow: float = 5.0
    decide_timeout: float = 60.0

    # A task that has not looked at its owners for this long was paused itself: the waiting before does not count, and
    # calls to the broker have this time to return.
    paused: float = 5.0

    # A run that stands by begins where the run before has been silent for this long; None: this run does not stand by.
    standby_after: float | None = None

    # Every run beats so often that a run with this `standby_after` misses none.
    beats_for: float = 2.0

    # A partition must be missing this long before we believe it: a broker that has just come back does not know for
    # some time what the others know.
    missing: float = 20.0

    # A contradiction in steps 3 and 4 must persist this long before we believe it. A broker that has just rejoined its
    # cluster may still think that it is the leader, and serve a truncated log.
    contradicted: float = 20.0

    # The same while a replica of the partition's logs is not in sync: then leaders change.
    out_of_sync: float = 120.0

    # An error that was last seen this long ago does not count any more.
    forgotten: float = 30.0

    # A store of checkpoints that has not answered for this long is given up: the log is there, too.
    checkpoint_silence: float = 60.0

    # A checkpoint that could not be written is tried again after this time, at most.
    checkpoint_retry: float = 60.0

    # A process that writes checkpoints is given up after this time.
    checkpoint_deadline: float = 3600.0

    # Orphaned owners have this long to end and to close their shards.
    orphaned: float = 10.0

    # The driver reads the claims this often.
    progress_interval: float = 0.5

    # A look that takes longer waits for a broker, and lost tasks do not wait for it: the look before tells if they got
    # further.
    look_patience: float = 1.0

    # A partition that got no further for this long is asked for the open transaction that may hide its commands, and
    # this often again.
    hidden: float = 5.0

    # Every partition must be claimed by then: enough for the start of a rebuild, not for a missing worker.
    claim_deadline: float = 60.0

    # The driver looks this often for slots that have joined or are lost.
    spread_every: float = 2.0

    # A task that has found no slot for this long finds none: the run begins again with the slots there are.
    slotless: float = 10.0

    # A task on a drained executor has this time to find another slot: an executor may be started in its place. Then the
    # run begins again with the slots there are. Where the executor is killed before, its tasks are lost.
    drained: float = 20.0

    # The pause before a lost task is submitted again, doubled up to the longest.
    first_backoff: float = 0.1
    longest_backoff: float = 30.0

    # Owners that were told to end have this long to close their shards cleanly.
    quiet_end: float = 5.0

    # A later run has this long from one claim to the next: then it is taken for one that wants no more of this run's
    # partitions, or has died. Its owners fence within a moment of each other, but for shards that are not ready, and
    # parents of a growth wait for their children: 35 s were seen on busy cores. Meanwhile this run decides the rest.
    next_claim: float = 60.0

    # When a run is stopped, a broker that does not answer within this time is taken for gone, and nothing is retired:
    # each step would wait for its own deadline, 80 s in all.
    last_answer: float = 3.0

    # Retiring a run takes at most this long: without brokers a call may never return (`TransactionalWriter.overdue`).
    retire_deadline: float = 2 * TRANSACTION_TIMEOUT


class Lasting:
    """The times at which an error was first and last seen. `forgotten`: seconds after which it begins anew."""

    def __init__(self, forgotten: float) -> None:
        self._forgotten = forgotten
        self._first = self._last = -forgotten

    def lasts(self, seconds: float) -> bool:
        """Note that the error is seen now; true once it has been seen for this long."""
        now = time.monotonic()
        if now - self._last >= self._forgotten:
            self._first = now
        self._last = now
        return now - self._first >= seconds
