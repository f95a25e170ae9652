"""The thread of a subscription: one owner after another, until an error says how it ends. Step 4 of the protocol."""

import os
import random
import sys
import threading
import time
import traceback

from confluent_kafka import KafkaError, KafkaException

from cqrs_cli.errors import ContradictionError, CqrsError, TakenOverError, UnavailableError
from cqrs_cli.following.processes.compose import Composer
from cqrs_cli.following.processes.explain import explain_missing, explain_refusal, topic_made_again
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.following.processes.loop import ReactLoop
from cqrs_cli.following.processes.owner import ProcessOwner
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessResult, Subscription
from cqrs_cli.following.processes.positions import committed_of
from cqrs_cli.following.processes.settle import settled_reaction
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.clients import consumer, is_denied, kafka_error, unreachable
from cqrs_cli.kafka.readers import MissingError
from cqrs_cli.ownership.claim import Claim, Judgement, judge, parse_claim
from cqrs_cli.ownership.signals import BatchTooLarge, ClaimLost, Superseded
from cqrs_cli.ownership.timing import Lasting
from cqrs_cli.payloads.place import PayloadUnavailableError
from cqrs_cli.telemetry.blocked import BlockedFile
from cqrs_cli.telemetry.datagrams import tell_driver

#: Errors after which the supervisor decides whether to begin again.
_JUDGED = (BatchTooLarge, ContradictionError, KafkaException, UnavailableError, MissingError, ClaimLost)

_UNKNOWN = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}


class ProcessSupervisor:
    """One subscription, through as many owners as errors make necessary."""

    def __init__(
        self,
        plan: ProcessPlan,
        subscription: Subscription,
        loaded: LoadedProcess,
        composer: Composer,
        attempt: int,
        stopping: threading.Event,
    ) -> None:
        self.plan, self.timing, self.subscription = plan, plan.timing, subscription
        self.loaded, self.composer, self.stopping = loaded, composer, stopping
        self.mine: Claim = plan.claim(subscription, attempt)
        self.batch_limit = self.timing.batch_limit
        self.refused: tuple[int, str] | None = None
        self.notes: list[str] = []
        self.blocked = BlockedFile(plan.place(subscription))
        self.owner: ProcessOwner | None = None
        self.loop: ReactLoop | None = None  # of the present owner, once it reacts
        self.pause = self.timing.first_pause
        self.events = self.commands = 0
        self.ending: ProcessResult | None = None
        self.pending = False  # whether the group's offset may be pending behind the fence
        self._forget()

    @property
    def failed(self) -> bool:
        """True once it has ended with an error: the whole run ends then."""
        return self.ending is not None and self.ending.error is not None

    def end_if_stuck(self) -> None:
        """End the whole process if a call to the broker outlives its timeout: it will never return."""
        owner = self.owner
        if owner is not None and owner.writer.waiting > self.timing.stuck:
            self.report("a call to the broker does not return", "ending the task")
            os._exit(os.EX_SOFTWARE)

    def report(self, what: object, then: str = "beginning again") -> None:
        """Write a line to the task's log."""
        kind = f"{type(what).__name__}: " if isinstance(what, BaseException) else ""
        print(f"{self.subscription}: {kind}{what}; {then}", file=sys.stderr, flush=True)

    def run(self) -> None:
        """The thread: everything it can end with becomes an ending."""
        error: CqrsError | None = None
        began = time.time()
        try:
            self._serve()
        except CqrsError as known:
            error = known
        except BaseException as bug:  # else the partition would be left without an owner
            traceback.print_exc()
            error = CqrsError(
                f"{self.subscription}: {type(bug).__name__}: {bug}", "see the log for the traceback"
            )
        self.blocked.tell("")
        self.ending = ProcessResult(
            self.subscription, self.events, self.commands, began, time.time(), error, tuple(self.notes)
        )

    def _serve(self) -> None:
        try:
            while not self.stopping.is_set() and not self._is_done():
                self.stopping.wait(self.pause * random.uniform(0.5, 1.5))
                self.pause = min(self.pause * 2, self.timing.longest_pause)
                self._judge_again()
        except Superseded as end:
            if end.judgement is Judgement.TAKEN_OVER and end.committed_claim is not None:
                raise TakenOverError(
                    f"run {end.committed_claim.run} took over process {self.subscription.process}",
                    "let it work; start this one again only to take it back",
                ) from end

    def _is_done(self) -> bool:
        """Let one owner work: true if it ended by itself, false if another one is to begin."""
        loop = self.loop = None
        try:
            settled_reaction(self.plan, self.subscription, self.pending, self._note)
        except (UnavailableError, KafkaException) as away:
            self._wait(away)
            return False
        with ProcessOwner(self.plan, self.subscription, self.mine) as owner:
            self.owner = owner
            try:
                owner.fence()
                start = owner.claim()
                loop = self.loop = ReactLoop(
                    owner,
                    self.loaded,
                    self.composer,
                    self.batch_limit,
                    self.refused,
                    self._note,
                    self.blocked,
                )
                loop.run(start, self.stopping.is_set)
                return True
            except _JUDGED as caught:
                error = caught
            finally:
                self.mine = owner.mine
                if loop is not None:
                    self.batch_limit = loop.batch_limit
                    self.events += loop.events
                    self.commands += loop.commands
            self.pending = loop is None and isinstance(error, KafkaException)
            self._handle(error, in_loop=loop is not None)
            del error  # through its traceback it holds this frame, and in it the owner with its clients
            if owner.useful:
                self.pause = self.timing.first_pause
                self._forget()
        return False

    def _handle(self, error: Exception, in_loop: bool) -> None:
        """Return if another owner is to begin; raise the error that ends the run."""
        if not isinstance(error, ContradictionError):
            self.contradicted = Lasting(self.timing.forgotten)  # brokers that fail may tell anything
        match error:
            case ContradictionError():
                self._judge_again()  # somebody who took over while I was reading
                if in_loop or self.contradicted.lasts(self.timing.contradicted):
                    raise error
            case BatchTooLarge():
                self._halve(error)
            case MissingError():
                if self.missing.lasts(self.timing.missing):
                    raise error
            case PayloadUnavailableError():
                self._note(f"{self.subscription}: {error}; still trying")
            case KafkaException() if is_denied(error):
                raise explain_refusal(self.plan, self.subscription, self.loaded.named) from error
            case KafkaException() if kafka_error(error).code() in _UNKNOWN:
                if self.missing.lasts(self.timing.missing):
                    raise explain_missing(self.plan, self.subscription) from error
        if in_loop:
            self._check_topic()
        self._wait(error)

    def _halve(self, error: BatchTooLarge) -> None:
        """Try half the batch; of a single event remember why its commands are not taken: it stops the process."""
        if error.size <= 1 and not error.late:
            self.refused = error.offset, f"a topic of commands refuses them: {str(error).partition(' (')[0]}"
        self.batch_limit = max(1, error.size // 2)
        self.pause = self.timing.first_pause

    def _check_topic(self) -> None:
        """Raise `ContradictionError` if the events topic was deleted and made again while it was read."""
        topic = self.subscription.source.topic
        try:
            with Admin(self.plan.connection) as admin:
                found = admin.describe([topic]).get(topic)
        except UnavailableError:
            return
        if found is not None and found.topic_id != self.plan.events[topic].topic_id:
            raise topic_made_again(self.subscription)

    def _judge_again(self) -> None:
        """4: read the claim without waiting for pending commits; raises `Superseded` if it is a later one."""
        group = self.plan.topics(self.subscription).group
        client = consumer(self.plan.connection, group=group, isolation="read_uncommitted")
        try:
            claim = parse_claim(committed_of(client, self.subscription).metadata)
        except KafkaException:
            return  # the next owner will see
        finally:
            client.close()
        judgement = judge(self.mine, claim)
        if judgement.ends:
            raise Superseded(judgement, claim)

    def _forget(self) -> None:
        """Begin to count from the start how long errors last."""
        self.missing, self.contradicted = (Lasting(self.timing.forgotten) for _ in range(2))

    def _wait(self, error: Exception) -> None:
        """Report an error after which another owner is to begin, and say for what the process waits until then."""
        self.report(error)
        if isinstance(error, KafkaException):
            error = unreachable(self.plan.connection, error)
        if isinstance(error, (MissingError, UnavailableError)):
            self.blocked.tell(str(error))

    def _note(self, text: str) -> None:
        """Say it, once."""
        if text not in self.notes:
            self.report(text, "")
            self.notes.append(text)
            tell_driver(self.plan.notes, text)
