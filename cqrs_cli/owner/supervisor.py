"""The owner of a partition: one tenure after another, until something says how it ends.

0 warm · 1 fence · 2 claim · 3 position · 4 recover · 5 loop · 6 any error: drop all, judge the claim, go to 1
"""

import os
import random
import sys
import threading
import time
import traceback
from contextlib import closing

from confluent_kafka import KafkaException

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import ContradictionError, CqrsError, TakenOverError, UnavailableError
from cqrs_cli.kafka.clients import is_denied
from cqrs_cli.kafka.offsets import committed_now
from cqrs_cli.kafka.readers import MissingError, StalledError
from cqrs_cli.kafka.writer import TRANSACTION_TIMEOUT
from cqrs_cli.owner.claim import Claim, Judgement, believable, judge, parse_claim
from cqrs_cli.owner.explain import explain_denial
from cqrs_cli.owner.owner import MOST_COMMANDS, Owner
from cqrs_cli.owner.plan import OwnerResult, Partition, Plan
from cqrs_cli.owner.signals import BatchTooLarge, ClaimLost, Superseded
from cqrs_cli.owner.warm_up import warm
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.shard import open_shard
from cqrs_cli.state.store import NotOwnerError, Store

#: A successor claims within milliseconds of its fence; wait at least this long before judging it, in seconds. Doubled
#: with each tenure in a row that decided nothing.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0

#: A call to the broker that takes longer never returns, in seconds: each ends by itself after the first part of it.
STUCK = TRANSACTION_TIMEOUT + 10.0

#: Who has not looked for so long was paused itself, in seconds: what its calls waited for then does not count.
PAUSED = 5.0

#: A partition that tenure after tenure does not find for so long is not there, in seconds: while brokers come and go,
#: one that has just come back denies for some time what the others have.
MISSING = 20.0

#: What contradicts itself in the logs as they are read, steps 3 and 4, and does so tenure after tenure for so long, in
#: seconds, is a contradiction: a broker that has just joined its cluster again may believe for a moment that it still
#: leads, and show less of a log than there is.
CONTRADICTED = 20.0

#: What was seen so long ago, in seconds, does not count any more.
FORGOTTEN = 30.0


class Supervisor:
    """One partition, through as many tenures as errors make necessary."""

    def __init__(
        self, plan: Plan, partition: Partition, aggregate: Aggregate, attempt: int, stopping: threading.Event
    ) -> None:
        self.plan = plan
        self.partition = partition
        self.aggregate = aggregate
        self.stopping = stopping
        self.mine: Claim = plan.claim(partition, attempt)
        self.batch_limit = MOST_COMMANDS
        self.refused = plan.refused.get(partition, frozenset())  # offsets that get a failed outcome unread
        self.notes: list[str] = []
        self.tenure: Owner | None = None
        self.store: Store | None = None
        self.missing, self.contradicted = _Lasting(), _Lasting()
        self.ending = OwnerResult(partition, self.mine.counts)
        self._looked = self._woke = time.monotonic()

    def end_if_stuck(self) -> None:
        """End the whole process if a call to the broker outlives its timeout, or another process holds the shard in
        the middle of a change: neither will ever end, and the driver submits a lost task again, which then sets the
        shard aside. Every crash is harmless, this one too. To be called several times a second.
        """
        now, looked, self._looked = time.monotonic(), self._looked, time.monotonic()
        if now - looked > PAUSED:
            self._woke = now
        if now - self._woke < STUCK:
            return
        tenure, store = self.tenure, self.store
        if tenure is not None and tenure.writer.waiting > STUCK:
            what = "a call to the broker does not return"
        elif store is not None and store.waiting > STUCK:
            what = "a stopped process holds the shard in the middle of a change"
        else:
            return
        self._tell(what, "ending the task")
        os._exit(os.EX_SOFTWARE)

    def _tell(self, what: object, then: str = "beginning again") -> None:
        """A line in the task's log."""
        kind = f"{type(what).__name__}: " if isinstance(what, Exception) else ""
        print(f"{_where(self.partition)}: {kind}{what}; {then}", file=sys.stderr, flush=True)

    @property
    def failed(self) -> bool:
        """Whether it ended in a way that ends the run."""
        return self.ending.error is not None

    def run(self) -> None:
        """The thread: everything it can end with becomes an ending."""
        error: CqrsError | None
        try:
            error = self._serve()
        except CqrsError as raised:
            error = raised
        # Whatever ended the thread unsaid would leave the partition without an owner.
        except BaseException as bug:
            traceback.print_exc()
            error = CqrsError(
                f"{_where(self.partition)}: {type(bug).__name__}: {bug}", "see the log for the traceback"
            )
        self.ending = OwnerResult(self.partition, self.mine.counts, error, tuple(self.notes))

    def _serve(self) -> CqrsError | None:
        identity = self.plan.identity(self.partition, self.aggregate)
        while True:
            opened = open_shard(self.plan.shard(self.partition), identity, self.notes.append)
            with closing(opened.store) as store:
                self.store = store
                try:
                    return self._keep(store)
                except CorruptError:
                    if opened.fresh:
                        raise  # not what lay on the disk is damaged: the disk is
                    store.condemn()

    def _keep(self, store: Store) -> CqrsError | None:
        warm(self.plan, self.partition, self.aggregate, store)
        if store.code_digest() not in ("", self.aggregate.code_digest):
            self.notes.append(
                f"the code of {self.partition.aggregate} changed but not its revision: if `evolve` means something "
                f"else now, raise it, Decider(…, revision={self.aggregate.decider.revision + 1}); check with: "
                f"cqrs verify {self.partition.aggregate} --state"
            )
        return self._hold(store)

    def _hold(self, store: Store) -> CqrsError | None:
        """Steps 1 to 6, until one of them says how this ends."""
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            with self._tenure(store) as tenure:
                self.tenure = tenure
                try:
                    tenure.fence()
                    tenure.claim()
                    tenure.position()
                    tenure.recover()
                    tenure.loop(self.stopping.is_set)
                    return None
                except Superseded as end:
                    return _stood_down(end)
                except BatchTooLarge as error:
                    if error.size == 1 and not error.late and not self._bury(error):
                        return _undecided(self.partition, tenure.topics.commands, error)
                    tenure.batch_limit = max(1, error.size // 2)
                    pause = FIRST_PAUSE if error.size > 1 else pause
                    self._tell(error)
                except ContradictionError as error:
                    if self._is_believable(tenure) and (
                        tenure.recovered or self.contradicted.lasts(CONTRADICTED)
                    ):
                        return error
                    self._tell(error)
                except MissingError as error:
                    if self.missing.lasts(MISSING):
                        return error
                    self._tell(error)
                except StalledError as error:
                    return error
                except (KafkaException, UnavailableError, ClaimLost, NotOwnerError) as error:
                    if isinstance(error, KafkaException) and is_denied(error):
                        return explain_denial(self.plan.connection, tenure.topics)
                    self._tell(error)
                finally:
                    self.mine, self.batch_limit = tenure.present_claim(), tenure.batch_limit
                if tenure.useful:
                    pause = FIRST_PAUSE
                    self.missing, self.contradicted = _Lasting(), _Lasting()
            self.stopping.wait(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, LONGEST_PAUSE)
            try:
                self._judge_again()
            except Superseded as end:
                return _stood_down(end)
        return None

    def _tenure(self, store: Store) -> Owner:
        return Owner(
            self.plan, self.partition, self.aggregate, store, self.mine, self.batch_limit, self.refused
        )

    def _bury(self, error: BatchTooLarge) -> bool:
        """Whether the record can be done with by leaving its bytes out of its dead letter, which is larger than the
        broker takes: unpacked, a small record may be of any size.
        """
        if not error.undecidable or error.offset in self.refused:
            return False
        self.refused |= {error.offset}
        topic = self.plan.grounds[self.partition.aggregate].topics.commands
        self.notes.append(
            f"{topic} partition {self.partition.number} offset {error.offset} failed, and its dead letter has none of "
            f"its bytes: {error}"
        )
        return True

    def _judge_again(self) -> None:
        """6: read the claim without waiting for pending commits; raises `Superseded` if it is a later one."""
        topics, number = self.plan.grounds[self.partition.aggregate].topics, self.partition.number
        try:
            claim = parse_claim(committed_now(self.plan.connection, topics, [number])[number].metadata)
        except UnavailableError:
            return  # the next tenure will see
        judgement = judge(self.mine, claim)
        if judgement.ends:
            raise Superseded(judgement, claim)

    def _is_believable(self, tenure: Owner) -> bool:
        """Whether a contradiction is one, rather than a successor at work."""
        try:
            return believable(tenure.mine, tenure.claimed, tenure.standing_now())
        except KafkaException:
            return False


class _Lasting:
    """Something that may pass: when it was first seen, and when last."""

    def __init__(self) -> None:
        self._first = self._last = -FORGOTTEN

    def lasts(self, seconds: float) -> bool:
        """It is seen now: whether it has been for so long."""
        now = time.monotonic()
        if now - self._last >= FORGOTTEN:
            self._first = now
        self._last = now
        return now - self._first >= seconds


def _stood_down(end: Superseded) -> CqrsError | None:
    if end.judgement is Judgement.STRAGGLER or end.committed_claim is None:
        return None
    return TakenOverError(
        f"run {end.committed_claim.run} took over these topics",
        "let it work; start this one again only to take them back",
    )


def _undecided(partition: Partition, topic: str, error: BatchTooLarge) -> CqrsError:
    name, number = partition
    return CqrsError(
        f"{topic} partition {number} offset {error.offset} cannot be decided: {error}",
        f"give that record a failed outcome and go on: cqrs run --fail {name}:{number}@{error.offset}",
    )


def _where(partition: Partition) -> str:
    return f"{partition.aggregate} partition {partition.number}"
