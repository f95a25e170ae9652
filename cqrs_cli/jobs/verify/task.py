"""What `cqrs verify` runs on a worker: one partition's topics, read with librdkafka and proved.

Under live traffic the order of the looks matters, for a transaction shows piece by piece: the committed offset may be
seen before the records that were committed with it. So the logs are read up to their high watermarks, waiting for what
is still open below them, and the offset is looked at before and after.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import CqrsError
from cqrs_cli.jobs.engine.partition_job import guarded
from cqrs_cli.jobs.replay.shards import Shards
from cqrs_cli.jobs.verify.state import Compared, StateCheck
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import bulk_consumer, consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import Committed, committed
from cqrs_cli.kafka.readers import StalledError
from cqrs_cli.kafka.topics.partitioner import Partitioner, partition_for
from cqrs_cli.kafka.topics.topics import KINDS, Kind, Topics
from cqrs_cli.owner.claim import UNKNOWN_TOPIC, Claim, parse_claim
from cqrs_cli.owner.explain import explain_stall
from cqrs_cli.proof.partition import Proof, Report, Scratch
from cqrs_cli.proof.scope import Loss, Scope
from cqrs_cli.registry import load
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.trace_index import TraceIndex

#: What owners write, in the order in which it is read.
LOGS: tuple[Kind, ...] = ("outcomes", "events", "dead-letters")

#: An owner that was killed leaves a transaction open for 20 s; wait longer, in seconds.
PATIENCE = 40.0


@dataclass(frozen=True, slots=True)
class ProofPlan:
    """What every task is told."""

    connection: Connection
    topics: Topics
    package: str
    root: Path  # where the package lies
    topic_ids: Mapping[Kind, str]
    partitions: int
    partitioner: Partitioner
    window: int  # ms
    longest_window: int  # ms
    shards: Shards | None = None  # compare with these


class Share(NamedTuple):
    """What came of one partition: a report, or the error that ends the job."""

    partition: int
    report: Report = Report()
    compared: Compared | None = None
    error: CqrsError | None = None


def prove_partition(plan: ProofPlan, partition: int) -> Share:
    """Prove one partition. Raises nothing: an error is a value, so that Spark sees no task fail."""
    where = f"{plan.topics.commands} partition {partition}"
    return guarded(
        plan.connection,
        where,
        lambda: _Partition(plan, partition).prove(),
        lambda error: Share(partition, error=error),
    )


class _Partition:
    """One partition under way."""

    def __init__(self, plan: ProofPlan, partition: int) -> None:
        self.plan = plan
        self.topics = plan.topics
        self.partition = partition

    def prove(self) -> Share:
        with ExitStack() as stack:
            self.reader: Consumer = stack.enter_context(closing(bulk_consumer(self.plan.connection)))
            self.group: Consumer = stack.enter_context(
                closing(consumer(self.plan.connection, group=self.topics.group))
            )
            try:
                return self._prove(self._scratch(stack))
            except StalledError as error:
                raise explain_stall(self.plan.connection, self.topics, self.partition, error) from error

    def _scratch(self, stack: ExitStack) -> Scratch:
        """What may be larger than memory: in a temporary folder, which TMPDIR names, about 400 bytes for each command.

        The files lose their names as soon as they are open, so that a task that is killed leaves nothing behind.
        """
        with tempfile.TemporaryDirectory(prefix="cqrs-verify-") as folder:
            outcomes, events, letters = (
                stack.enter_context(closing(TraceIndex(_made(Path(folder) / kind)))) for kind in LOGS
            )
            store = LmdbStore(_made(Path(folder) / "recall"), self.plan.window)
        stack.callback(store.abandon)
        return Scratch(outcomes, events, letters, store)

    def _prove(self, scratch: Scratch) -> Share:
        """1: the committed offset · 2: the ends of the logs · 3: read them · 4: the offset again · 5: the commands, as
        far as they are decided · 6: the state, if that is wanted
        """
        before = self._committed()
        bounds = {kind: self._bounds(kind) for kind in KINDS}
        claim = parse_claim(before.metadata)
        proof = Proof(self._scope(claim, bounds), scratch)
        takers = (proof.outcomes.read, proof.events.read, proof.dead_letters.read)
        for kind, take in zip(LOGS, takers, strict=True):
            for records in self._read(kind, *bounds[kind]):
                take(records)
        after = self._committed()
        start, end = self._bounds("commands")
        self._check_claim(proof, claim, before, end)
        decided = proof.decided(before.offset, after.offset, start)
        commands = self._read("commands", start, min(end, proof.until(decided)))
        proof.conclude(chain.from_iterable(commands), decided)
        compared = None
        if self.plan.shards is not None:
            aggregate = load(self.topics.aggregate, self.plan.package, self.plan.root)
            refolded = StateCheck(self.plan.connection, self.topics, self.partition, aggregate)
            compared = refolded.compare(self.plan.shards, proof, decided.surely, bounds["events"][1])
        return Share(self.partition, proof.report(), compared)

    def _scope(self, claim: Claim | None, bounds: Mapping[Kind, tuple[int, int]]) -> Scope:
        plan, accepted = self.plan, claim.accepted if claim is not None else None
        return Scope(
            self.topics.aggregate,
            self.topics.commands,
            self.partition,
            {kind: start for kind, (start, _) in bounds.items()},
            plan.window,
            lambda key: partition_for(plan.partitioner, key, plan.partitions),
            None if accepted is None else Loss(accepted.at, accepted.events[1], accepted.outcomes),
            self._command_at,
            plan.longest_window,
        )

    def _command_at(self, offset: int) -> Record | None:
        """Read beside the log that is being read."""
        start, end = self._bounds("commands")
        if not start <= offset < end:
            return None
        topic = self.topics.commands
        return readers.first_record(self.plan.connection, topic, self.partition, offset, offset + 1)

    def _check_claim(self, proof: Proof, claim: Claim | None, committed: Committed, end: int) -> None:
        """Whether the commands topic is the one that was decided."""
        at = committed.offset or 0
        if at > end:
            proof.findings.add("commands", at, f"is the committed offset, though the log ends at {end}")
        if claim is None or claim.topic_id == UNKNOWN_TOPIC:
            return
        if claim.topic_id != self.plan.topic_ids["commands"]:
            proof.findings.add("commands", at, "is an offset of another topic: this one was created since")
        if claim.partitions != self.plan.partitions:
            what = f"was committed when there were {claim.partitions} partitions: now {self.plan.partitions}"
            proof.findings.add("commands", at, what)

    def _committed(self) -> Committed:
        """What the group has committed; waits for what is being committed."""
        return committed(self.group, self.topics.commands, [self.partition], PATIENCE)[self.partition]

    def _bounds(self, kind: Kind) -> tuple[int, int]:
        """(start, high watermark)"""
        topic = self.topics.name(kind)
        return readers.bounds(self.plan.connection, topic, [self.partition], "read_uncommitted")[
            self.partition
        ]

    def _read(self, kind: Kind, start: int, end: int) -> Iterator[list[Record]]:
        """What is committed of a stretch; waits for what is open."""
        topic, reader = self.topics.name(kind), self.reader
        return readers.read_with(
            self.plan.connection, reader, topic, self.partition, start, end, patience=PATIENCE
        )


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
