"""The thread of a partition: one owner after another, until an error says how it ends. Step 6 of the protocol."""

import gc
import os
import random
import sys
import threading
import time
import traceback
from contextlib import closing

from confluent_kafka import KafkaException

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import Undecided
from cqrs_cli.deciding import explain
from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.owner import Owner
from cqrs_cli.deciding.plan import OwnerResult, Partition, Plan
from cqrs_cli.deciding.recover import warm, will_last
from cqrs_cli.deciding.settle import settled
from cqrs_cli.errors import ContradictionError, CqrsError, UnavailableError
from cqrs_cli.kafka.clients import is_denied
from cqrs_cli.kafka.readers import MissingError, StalledError
from cqrs_cli.ownership.claim import Claim, Judgement, believable, judge, parse_claim
from cqrs_cli.ownership.signals import JUDGED, BatchTooLarge, OffsetPending, Superseded
from cqrs_cli.ownership.timing import Lasting
from cqrs_cli.ownership.trials.attempts import Attempts
from cqrs_cli.payloads.place import PayloadUnavailableError
from cqrs_cli.state.errors import CorruptError
from cqrs_cli.state.memory import MemoryBudget
from cqrs_cli.state.opening import OpenedStore, open_store
from cqrs_cli.state.store import Store


class Supervisor:
    """One partition, through as many owners as errors make necessary."""

    def __init__(
        self,
        plan: Plan,
        partition: Partition,
        aggregate: Aggregate,
        attempt: int,
        stopping: threading.Event,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.plan, self.timing = plan, plan.timing
        self.budget = budget or MemoryBudget(plan.store_limit)
        self._topic_id = plan.topics[partition.aggregate].ids["commands"]
        self._place = f"{partition.aggregate} partition {partition.number}"
        self.partition, self.aggregate, self.stopping = partition, aggregate, stopping
        self.log = plan.log(partition)
        self.mine: Claim = plan.claim(partition, attempt)
        self.batch_limit = self.timing.batch_limit
        self.notes: list[str] = []
        refused = plan.refused.get(partition, frozenset())  # offsets that get a failed outcome unread
        self.attempts = Attempts(self.log.place("commands"), self.notes.append, refused)
        self.measures = Measures()
        self.owner: Owner | None = None
        self.store: Store | None = None
        self.pause = self.timing.first_pause
        self._forget()
        self.ending = OwnerResult(partition, self.mine.counts)
        self._looked = self._woke = time.monotonic()

    def end_if_stuck(self) -> None:
        """End the whole process if a call to the broker outlives its timeout, or another process holds the shard in
        the middle of a change: neither will ever end, and the driver submits a lost task again, which then sets the
        shard aside. Every crash is harmless, this one too. To be called several times a second.
        """
        now, looked, self._looked = time.monotonic(), self._looked, time.monotonic()
        if now - looked > self.timing.paused:
            self._woke = now
        if now - self._woke < self.timing.stuck:
            return
        owner, store = self.owner, self.store
        if owner is not None and owner.session.writer.waiting > self.timing.stuck:
            what = "a call to the broker does not return"
        elif store is not None and store.waiting > self.timing.stuck:
            what = "a stopped process holds the shard in the middle of a change"
        else:
            return
        self.report(what, "ending the task")
        os._exit(os.EX_SOFTWARE)

    def report(self, what: object, then: str = "beginning again") -> None:
        """Write a line to the task's log."""
        kind = f"{type(what).__name__}: " if isinstance(what, BaseException) else ""
        print(f"{self._place}: {kind}{what}; {then}", file=sys.stderr, flush=True)

    @property
    def failed(self) -> bool:
        """True if its ending ends the run."""
        return self.ending.error is not None

    def run(self) -> None:
        """The thread: everything it can end with becomes an ending."""
        error: CqrsError | None = None
        try:
            self._serve()
        except CqrsError as raised:
            error = raised
        # An error that ended the thread without an ending would leave the partition without an owner.
        except BaseException as bug:
            traceback.print_exc()
            error = CqrsError(f"{self._place}: {type(bug).__name__}: {bug}", "see the log for the traceback")
        self.ending = OwnerResult(self.partition, self.mine.counts, error, tuple(self.notes))
        self.measures.enter("ended")

    def open(self) -> OpenedStore:
        """Open the partition's store: the one that is there, or an empty one. Raises what `open_shard` raises."""
        identity = self.plan.identity(self.partition, self.aggregate)
        path = None if self.plan.store == "memory" else self.plan.shard(self.partition)
        return open_store(path, identity, self.budget, self.notes.append, self.timing.shard)

    def _serve(self) -> None:
        while True:
            self.measures.enter("open")
            opened = self.open()
            with closing(opened.store) as store:
                self.store = store
                try:
                    return self._keep(store)
                except CorruptError:
                    if opened.fresh:
                        raise  # the shard was new: the disk is damaged, not an old file
                    store.condemn()

    def _keep(self, store: Store) -> None:
        plan, measures = self.plan, self.measures
        measures.enter("warm")
        warm(self.log, self.aggregate, store, plan.window, plan.cache_bytes, measures, self._topic_id)
        if store.code_digest() not in ("", self.aggregate.fold_digest):
            self.notes.append(explain.explain_changed_code(self.aggregate))
        try:
            while not self.stopping.is_set() and not self._is_done(store):
                measures.begin_again()
                self.stopping.wait(self.pause * random.uniform(0.5, 1.5))
                self.pause = min(self.pause * 2, self.timing.longest_pause)
                self._judge_again()
        except Superseded as end:
            if end.judgement is not Judgement.STRAGGLER and end.committed_claim is not None:
                raise explain.explain_takeover(end.committed_claim) from end

    def _is_done(self, store: Store) -> bool:
        """Let one owner work, steps 1 to 5: true if it ended by itself, false if another one is to begin."""
        plan, partition, aggregate, mine = self.plan, self.partition, self.aggregate, self.mine
        limit, attempts, measures = self.batch_limit, self.attempts, self.measures
        with Owner(plan, partition, aggregate, store, mine, limit, attempts, measures, self.behind) as owner:
            self.owner = owner
            try:
                owner.fence()
                claimed = owner.claim()
                start = owner.position(claimed)
                state = owner.recover(start)
                owner.loop(state, start.offset, self.stopping.is_set)
                return True
            except JUDGED as caught:
                error = caught
            finally:
                self.mine, self.batch_limit = owner.session.present_claim(), owner.session.batch_limit
            self._handle(error, owner)
            del error  # through its traceback it holds this frame, and in it the owner with its clients
            if owner.session.useful:
                self.pause = self.timing.first_pause
                self._forget()
        return False

    def _handle(self, error: BaseException, owner: Owner) -> None:
        """Return if another owner is to begin; raise the error that ends the run."""
        if not isinstance(error, ContradictionError):
            self.contradicted = Lasting(self.timing.forgotten)  # brokers that fail may tell anything
        match error:
            case Undecided():
                self._try_alone(error, owner.session.limit)
            case MemoryError() | OSError() | SystemExit():
                self.batch_limit = max(1, self.batch_limit // 2)
                if self.exhausted.lasts(self.timing.contradicted):
                    raise error
            case BatchTooLarge():
                if error.size == 1 and not error.late and not self._refuse(error):
                    raise explain.explain_undecidable(self.log, error) from error
                self.batch_limit = max(1, error.size // 2)
                if error.size > 1:
                    self.pause = self.timing.first_pause
            case ContradictionError():
                if self._is_believable(owner) and (owner.recovered or will_last(error) or self._lasts(owner)):
                    raise error
            case MissingError():
                if self.missing.lasts(self.timing.missing):
                    raise error
            case PayloadUnavailableError():
                self.measures.block(str(error), self.notes)
            case OffsetPending():
                self._settle(pending=True)
            case StalledError():
                if not self._settle(pending=False):
                    raise error
            case KafkaException() if is_denied(error):
                raise explain.explain_denial(self.log) from error
        self.report(error)

    def _forget(self) -> None:
        """Begin to count from the start how long errors last."""
        forgotten = self.timing.forgotten
        self.missing, self.contradicted, self.exhausted, self.behind = (Lasting(forgotten) for _ in range(4))

    def _try_alone(self, error: Undecided, limit: int) -> None:
        """Decide the commands before it next, then the command alone. Only a command that was alone is blamed."""
        self.batch_limit = max(1, error.before)
        gc.collect()  # the memory that was short
        if limit > 1:
            self.pause = self.timing.first_pause
        else:
            self.attempts.failed_alone(error.offset, str(error))

    def _refuse(self, error: BatchTooLarge) -> bool:
        """Leave the bytes of a record out of its dead letter, which is larger than the broker takes: unpacked, a small
        record may be of any size. True if that was not tried before and the dead letter is to blame.
        """
        if not error.undecidable or error.offset in self.attempts.refused:
            return False
        self.attempts.refuse(error.offset, str(error))
        return True

    def _settle(self, pending: bool) -> bool:
        timeout = int(self.timing.transaction_timeout * 1000)
        return settled(self.log, self._topic_id, timeout, pending, self.notes.append)

    def _judge_again(self) -> None:
        """6: read the claim without waiting for pending commits; raises `Superseded` if it is a later one."""
        try:
            claim = parse_claim(self.log.committed().metadata)
        except UnavailableError:
            return  # the next owner will see
        if (judgement := judge(self.mine, claim)).ends:
            raise Superseded(judgement, claim)

    def _is_believable(self, owner: Owner) -> bool:
        """True if a contradiction is real, and not a successor at work."""
        try:
            return believable(owner.session.mine, owner.session.claimed, owner.session.claim_now())
        except KafkaException:
            return False

    def _lasts(self, owner: Owner) -> bool:
        """True if a contradiction has lasted long enough, without any other error between."""
        settled = owner.session.is_settled()
        return self.contradicted.lasts(self.timing.contradicted if settled else self.timing.unsettled)
