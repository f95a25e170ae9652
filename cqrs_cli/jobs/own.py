"""What a Spark task runs: the owners of its partitions, a thread each.

0 warm · 1 fence · 2 claim · 3 position · 4 recover · 5 loop · 6 any error: drop all, judge the claim, go to 1
"""

import gc
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

from confluent_kafka import KafkaException

from cqrs_cli import failpoints
from cqrs_cli.core.aggregate import Aggregate
from cqrs_cli.errors import ContradictionError, CqrsError, TakenOverError, UnavailableError
from cqrs_cli.jobs.assignment import Plan, Verdict
from cqrs_cli.jobs.claim import Claim, Judgement, believable, judge, may_warm, parse_claim
from cqrs_cli.jobs.denied import denied
from cqrs_cli.jobs.ledger import Ledger
from cqrs_cli.jobs.recover import fold_events, fold_outcomes
from cqrs_cli.jobs.tenure import MOST_COMMANDS, LostError, StandDown, Tenure, TooMuchError
from cqrs_cli.kafka.clients import is_denied
from cqrs_cli.kafka.offsets import standing
from cqrs_cli.kafka.readers import MissingError, StalledError, bounds, last_record
from cqrs_cli.kafka.writer import TRANSACTION_TIMEOUT
from cqrs_cli.registry import load
from cqrs_cli.state.folder import CorruptError
from cqrs_cli.state.shard import Identity, open_shard
from cqrs_cli.state.store import NotOwnerError, Store

#: A successor claims within milliseconds of its fence; wait at least this long before judging it, in seconds. Doubled
#: with each tenure in a row that decided nothing.
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 5.0

#: A call to the broker that takes longer never returns, in seconds: twice fence or commit with all their retries.
STUCK = 3 * TRANSACTION_TIMEOUT

#: A partition that tenure after tenure does not find for so long is not there, in seconds: while brokers come and go,
#: one that has just come back denies for some time what the others have.
MISSING = 20.0

#: Not having found it so long ago, in seconds, does not count any more.
FORGOTTEN = 30.0

#: Orphaned owners have so long to end and to close their shards, in seconds.
ORPHANED = 10.0


def own(plan: Plan, task: int, tasks: int, attempt: int) -> Iterator[Verdict]:
    """Own this task's share of the partitions until all of them have ended; yields how each did.

    An orphan, whose parent is gone, ends without a word: its verdicts are nobody's, and what still waits for them must
    take the task for lost.
    """
    failpoints.arm()
    parent, orphaned, began = os.getppid(), 0.0, time.process_time()
    stopping = threading.Event()
    units = plan.share(task, tasks)
    aggregates = {name: load(name, plan.package, plan.root) for name in {name for name, _ in units}}
    owners = [Owner(plan, unit, aggregates[unit[0]], attempt, stopping) for unit in units]
    threads = [threading.Thread(target=owner.run, name=str(owner.unit), daemon=True) for owner in owners]
    gc.freeze()
    gc.disable()  # the loop makes no cycles worth a pause; what an aggregate's code leaves goes here
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(timeout=0.2)
        if os.getppid() != parent:
            orphaned = orphaned or time.monotonic()
        if orphaned or any(owner.failed for owner in owners):
            stopping.set()
        if orphaned and time.monotonic() - orphaned > ORPHANED:
            break
        for owner in owners:
            owner.end_if_stuck()
        gc.collect(1)
    if orphaned:
        os._exit(os.EX_SOFTWARE)
    gc.enable()
    first, *others = [owner.verdict for owner in owners]
    yield replace(first, cpu=time.process_time() - began)
    yield from others


class Owner:
    """One partition, through as many tenures as errors make necessary."""

    def __init__(
        self, plan: Plan, unit: tuple[str, int], aggregate: Aggregate, attempt: int, stopping: threading.Event
    ) -> None:
        self.plan = plan
        self.unit = unit
        self.aggregate = aggregate
        self.stopping = stopping
        self.mine: Claim = plan.claim(unit, attempt)
        self.most = MOST_COMMANDS
        self.notes: list[str] = []
        self.tenure: Tenure | None = None
        self.store: Store | None = None
        self.missed = (0.0, 0.0)  # when a partition was first not found, and when last
        self.verdict = Verdict(unit, self.mine.counts)

    def end_if_stuck(self) -> None:
        """End the whole process if a call to the broker outlives its timeout, or another process holds the shard in
        the middle of a change: neither will ever end, and the driver submits a lost task again, which then sets the
        shard aside. Every crash is harmless, this one too.
        """
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
        print(f"{_where(self.unit)}: {kind}{what}; {then}", file=sys.stderr, flush=True)

    @property
    def failed(self) -> bool:
        """Whether it ended in a way that ends the run."""
        return self.verdict.error is not None

    def run(self) -> None:
        """The thread: everything it can end with becomes a verdict."""
        error: CqrsError | None
        try:
            error = self._serve()
        except CqrsError as raised:
            error = raised
        except Exception as bug:
            traceback.print_exc()
            error = CqrsError(
                f"{_where(self.unit)}: {type(bug).__name__}: {bug}", "see the log for the traceback"
            )
        self.verdict = Verdict(self.unit, self.mine.counts, error, tuple(self.notes))

    def _serve(self) -> CqrsError | None:
        identity = identity_of(self.plan, self.unit, self.aggregate)
        while True:
            opened = open_shard(self.plan.shard(self.unit), identity, self.notes.append)
            with closing(opened.store) as store:
                self.store = store
                try:
                    return self._keep(store)
                except CorruptError:
                    if opened.fresh:
                        raise  # not what lay on the disk is damaged: the disk is
                    store.condemn()

    def _keep(self, store: Store) -> CqrsError | None:
        self._warm(store)
        if store.code() not in ("", self.aggregate.code):
            self.notes.append(
                f"the code of {self.unit[0]} changed but not its revision: if `evolve` means something else "
                f"now, raise it; check with: cqrs replay {self.unit[0]} --check"
            )
        return self._hold(store)

    def _warm(self, store: Store) -> None:
        """0: fold what is visible while the previous owner still serves; a living owner's shard is left alone."""
        name, partition = self.unit
        topics, connection = self.plan.grounds[name].topics, self.plan.connection
        try:
            token = store.token()  # before the claim: an owner claims first, then takes the shard
            claim = parse_claim(standing(connection, topics, [partition])[partition].metadata)
            if not may_warm(token, claim):
                return
            ledger = Ledger(self.aggregate, store, token)
            outcomes = bounds(connection, topics.outcomes, [partition])[partition]
            events = bounds(connection, topics.events, [partition])[
                partition
            ]  # at least those of the outcomes
            last = last_record(connection, topics.outcomes, partition, *outcomes)
            fold_events(connection, self.aggregate, topics, partition, ledger, events[1])
            accepted = (claim.accepted_loss if claim else None) or 0
            fold_outcomes(
                connection, topics, partition, ledger, outcomes[1], last, self.plan.window, accepted
            )
        except CorruptError:
            raise
        except (CqrsError, NotOwnerError):
            pass  # not fenced yet, so nothing here is a verdict: step 4 reads it all again

    def _hold(self, store: Store) -> CqrsError | None:
        """Steps 1 to 6, until one of them says how this ends."""
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            with Tenure(self.plan, self.unit, self.aggregate, store, self.mine, self.most) as tenure:
                self.tenure = tenure
                try:
                    tenure.fence()
                    tenure.claim()
                    tenure.position()
                    tenure.recover()
                    tenure.loop(self.stopping.is_set)
                    return None
                except StandDown as end:
                    return _stood_down(end)
                except TooMuchError as error:
                    if error.size == 1 and not error.late:
                        return _given_up(self.unit, tenure.topics.commands, error)
                    tenure.most = max(1, error.size // 2)
                    pause = FIRST_PAUSE if error.size > 1 else pause
                    self._tell(error)
                except ContradictionError as error:
                    if self._is_believable(tenure):
                        return error
                except MissingError as error:
                    if self._is_gone():
                        return error
                    self._tell(error)
                except StalledError as error:
                    return error
                except (KafkaException, UnavailableError, LostError, NotOwnerError) as error:
                    if isinstance(error, KafkaException) and is_denied(error):
                        return denied(self.plan.connection, tenure.topics)
                    self._tell(error)
                finally:
                    self.mine, self.most = tenure.present_claim(), tenure.most
                if tenure.useful:
                    pause, self.missed = FIRST_PAUSE, (0.0, 0.0)
            self.stopping.wait(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, LONGEST_PAUSE)
            try:
                self._judge_again()
            except StandDown as end:
                return _stood_down(end)
        return None

    def _judge_again(self) -> None:
        """6: read the claim without waiting for pending commits; raises `StandDown` if it is a later one."""
        topics, partition = self.plan.grounds[self.unit[0]].topics, self.unit[1]
        try:
            claim = parse_claim(standing(self.plan.connection, topics, [partition])[partition].metadata)
        except UnavailableError:
            return  # the next tenure will see
        judgement = judge(self.mine, claim)
        if judgement.ends:
            raise StandDown(judgement, claim)

    def _is_gone(self) -> bool:
        """Whether a partition that was just not found is not there."""
        now = time.monotonic()
        first, last = self.missed
        self.missed = (first if now - last < FORGOTTEN else now, now)
        return now - self.missed[0] > MISSING

    def _is_believable(self, tenure: Tenure) -> bool:
        """Whether a contradiction is one, rather than a successor at work."""
        try:
            return believable(tenure.mine, tenure.claimed, tenure.standing_now())
        except KafkaException:
            return False


def identity_of(plan: Plan, unit: tuple[str, int], aggregate: Aggregate) -> Identity:
    """What the shard of this partition is a cache of."""
    ground = plan.grounds[unit[0]]
    return Identity(
        cluster_id=ground.cluster_id,
        topics={str(kind): topic_id for kind, topic_id in ground.ids.items()},
        partition=unit[1],
        partitions=ground.partitions,
        schema=aggregate.schema,
        revision=aggregate.decider.revision,
        window_ms=plan.window,
    )


def _stood_down(end: StandDown) -> CqrsError | None:
    if end.judgement is Judgement.STRAGGLER or end.standing is None:
        return None
    return TakenOverError(
        f"run {end.standing.run} took over these topics",
        "let it work; start this one again only to take them back",
    )


def _given_up(unit: tuple[str, int], topic: str, error: TooMuchError) -> CqrsError:
    name, partition = unit
    return CqrsError(
        f"{topic} partition {partition} offset {error.offset} cannot be decided: {error}",
        f"give that record a failed outcome and go on: cqrs run --fail {name}:{partition}@{error.offset}",
    )


def _where(unit: tuple[str, int]) -> str:
    return f"{unit[0]} partition {unit[1]}"
