"""The driver of `cqrs process`: one Spark job over all partitions of events that the processes hear.

Progress comes with the claims beside the groups' offsets, which repeat the positions.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaException

from cqrs_cli import registry
from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.jobs.engine import jvm
from cqrs_cli.jobs.engine.long_job import LongJob, Task, run_long_job
from cqrs_cli.jobs.engine.session import code_root
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.readers import MissingError, watermarks
from cqrs_cli.owner.claim import parse_claim
from cqrs_cli.processes.load import PROCESSES, load_process
from cqrs_cli.processes.plan import Hearing, ProcessPlan, ProcessProgress, ProcessResult
from cqrs_cli.processes.positions import committed_of
from cqrs_cli.processes.retire import retire_processes
from cqrs_cli.processes.supervisor import topic_made_again

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator

#: Seconds between two looks at the topics.
_TOPICS_EVERY = 10.0

_GROUP = "cqrs-process"


def run_processes(
    context: "SparkContext",
    plan: ProcessPlan,
    tasks: int,
    watch: Callable[[ProcessProgress], None],
    note: Callable[[str], None],
) -> ProcessProgress:
    """Own every partition of the plan until its targets are reached, or for ever; returns how far it came.

    Raises the error that ended the run. After any ending the partitions that are still this run's have been fenced.
    """
    watcher = _ClaimWatcher(plan, note)
    names = ", ".join(dict.fromkeys(hearing.process for hearing in plan.hearings))

    def submit(number: int) -> LongJob[ProcessResult]:
        watcher.submission = number
        work = partial(_work, replace(plan, submission=number), tasks)
        return LongJob(context, _GROUP, f"cqrs process {names}", tasks, ProcessResult, work)

    def end(job: LongJob[ProcessResult]) -> None:
        """Fence first, so that owners return by themselves; then cancel the tasks that are left."""
        if not job.is_alive():
            return
        retire_processes(plan)
        job.join(plan.timing.quiet_end)
        if job.is_alive() and not jvm.is_gone(context):
            job.cancel()
            retire_processes(plan)  # those that had not claimed yet at the first pass

    try:
        done, results = run_long_job(
            context, submit, watcher, watch, note, endless=plan.targets is None, end=end
        )
    except BaseException:
        retire_processes(
            plan
        )  # also after a lost task, whose transaction would hide commands until its time is up
        raise
    finally:
        watcher.close()
    return replace(
        done,
        events=sum(result.events for result in results),
        commands=sum(result.commands for result in results),
        seconds=max(result.ended for result in results) - min(result.began for result in results),
        cpu=sum(result.cpu for result in results),
    )


def _work(plan: ProcessPlan, tasks: int, results: "Accumulator[dict[int, ProcessResult]]") -> Task:
    return partial(_task, plan, tasks, results)


def _task(
    plan: ProcessPlan,
    tasks: int,
    results: "Accumulator[dict[int, ProcessResult]]",
    number: int,
    _: Iterable[int],
) -> Iterator[int]:
    """The function that Spark runs on a worker."""
    from pyspark import TaskContext

    from cqrs_cli.jobs.process.task import react_share

    task = TaskContext.get()
    root, aggregates = code_root(PROCESSES, plan.root), code_root(plan.package, plan.root)
    for result in react_share(
        plan,
        plan.share(number, tasks),
        lambda name: load_process(name, root, plan.package, aggregates),
        lambda name: registry.load(name, plan.package, aggregates),
        task.attemptNumber() if task else 0,
    ):
        results.add({plan.hearings.index(result.hearing): result})
    yield number


class _ClaimWatcher:
    """Reads how far the processes are, from their groups' offsets and the ends of the logs."""

    def __init__(self, plan: ProcessPlan, note: Callable[[str], None]) -> None:
        self._plan, self._note = plan, note
        self._clients: dict[str, Consumer] = {}
        self.submission = 0
        self._checked = self._begun = time.monotonic()
        self._listening = False
        self._last = ProcessProgress(time.monotonic(), {}, {})

    def look(self) -> ProcessProgress:
        """The progress now; that of the last look if the broker does not answer. Says once that all listen."""
        positions, ends, claimed = dict[Hearing, int](), dict[Hearing, int](), set[Hearing]()
        try:
            for hearing in self._plan.hearings:
                client, source = self._client(hearing), hearing.source
                found = committed_of(client, hearing)
                if found.offset is not None:
                    positions[hearing] = found.offset
                ends[hearing] = watermarks(client, source.topic, source.partition)[1]
                claim = parse_claim(found.metadata)
                if claim is not None and claim.run == self._plan.run:
                    claimed.add(hearing)
        except (KafkaException, MissingError, CqrsError):
            self.close()  # a client that once met a broker cut off from the others may go on being wrong
            return self._last
        self._last = ProcessProgress(
            time.monotonic(), positions, self._plan.targets or ends, frozenset(claimed)
        )
        if len(claimed) == len(self._plan.hearings) and not self._listening:
            self._listening = True
            self._note("listening: what is recorded from now on is reacted to, whatever happens")
        return self._last

    def _client(self, hearing: Hearing) -> Consumer:
        if hearing.process not in self._clients:
            group = self._plan.topics(hearing).group
            self._clients[hearing.process] = consumer(
                self._plan.connection, group=group, isolation="read_uncommitted"
            )
        return self._clients[hearing.process]

    def check(self) -> None:
        """Raise `ContradictionError` if a topic was made again: a reader may hear of that after minutes, or never.

        Raises `UnavailableError` for partitions that nobody has claimed in time.
        """
        now, patience = time.monotonic(), self._plan.timing.claim_deadline
        missing = [one for one in self._plan.hearings if one not in self._last.claimed]
        if missing and self._plan.targets is None and now - self._begun > patience:
            raise UnavailableError(
                f"nobody owns {missing[0]} after {patience:.0f} s",
                "are there enough task slots, and do the workers reach the broker? cqrs doctor, and Spark's log",
            )
        if now - self._checked > _TOPICS_EVERY:
            self._checked = now
            with suppress(UnavailableError):
                self._check_topics()

    def _check_topics(self) -> None:
        with Admin(self._plan.connection) as admin:
            found = admin.describe(list(self._plan.events))
        for hearing in self._plan.hearings:
            there = found.get(hearing.source.topic)
            if there is not None and there.topic_id != self._plan.events[hearing.source.topic].topic_id:
                raise topic_made_again(hearing)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()
