"""One aggregate's topics on the real broker: tests send to them, run owners on them, and read them."""

import json
import re
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cqrs_cli import registry
from cqrs_cli.core import digest
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.packing import pack
from cqrs_cli.deciding.plan import Plan, shards_folder_of
from cqrs_cli.deciding.prepare import prepare
from cqrs_cli.jobs.verify.driver import verify_in_process
from cqrs_cli.kafka import clients, offsets, readers
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import producer_partition
from cqrs_cli.kafka.topics.topics import Kind, TopicPlan, Topics
from cqrs_cli.ownership.claim import Claim, parse_claim
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.scans.verify.plan import plan_verify
from cqrs_cli.settings.settings import Settings, load_settings
from cqrs_cli.state.shard import open_readonly
from cqrs_cli.state.shutdown_marker import MARKER_FILE
from tests.support import ROOT
from tests.support.commands import CommandRecord
from tests.support.topic_settings import configure_topic
from tests.support.waiting import eventually

RecordTuple = tuple[bytes | None, bytes | None, int]

#: Timing of owners that notice a fence at once, and believe an inconsistency at once.
SHORT_TIMEOUTS = Timing(idle_check_interval=0.1, inconsistency_timeout=0.0)

_CLOCK = re.compile(rb',"decidedat":"[^"]*"')


class TopicHarness:
    """The topics of `name` with their own prefix, and a folder for the shards of each machine that owns them."""

    def __init__(
        self,
        connection: Connection,
        prefix: str,
        folder: Path,
        name: str = "counter",
        partitions: int = 1,
        package: str = "aggregates",
        root: Path = ROOT,
    ) -> None:
        self.connection, self.folder, self.partitions = connection, folder, partitions
        self.topics = Topics(name, prefix)
        self.aggregate: Aggregate = registry.load(name, package, root)
        self.settings: Settings = load_settings(
            {"topic_prefix": prefix, "aggregates": package, "state_dir": folder / "state"}, root
        )
        self.reconnect()
        self.make_topics()

    def reconnect(self) -> None:
        """Send with a new client from now on."""
        self._producer = clients.producer(
            self.connection, enable_idempotence=False, message_max_bytes=64 * 1024 * 1024
        )

    def make_topics(self) -> None:
        """Create the topics that are missing."""
        plan = TopicPlan(self.partitions, personal=self.aggregate.has_personal_fields)
        with Admin(self.connection) as admin:
            ensure_topics(admin, self.topics, plan)

    def configure(self, kind: Kind, name: str, value: str) -> None:
        """Change a setting of a topic, and wait until the broker shows it."""
        configure_topic(self.connection, self.topics.name(kind), {name: value})

    def partition_of(self, key: str) -> int:
        """Return the partition of a key."""
        return producer_partition("murmur2", key.encode(), self.partitions)

    def plan(
        self, once: bool = True, machine: str = "state", timing: Timing = SHORT_TIMEOUTS, **options: Any
    ) -> Plan:
        """Return the plan of a new run, whose shards are in the folder `machine`."""
        aggregates = {self.topics.aggregate: self.aggregate}
        plan = prepare(self.settings, self.connection, aggregates, once=once, **options)
        return replace(plan, state_dir=self.folder / machine, timing=timing)

    def send(self, *records: CommandRecord) -> None:
        """Append records to the commands, and wait for their acknowledgement."""
        failures: list[Any] = []
        for record in records:
            partition = record.partition
            if partition is None:
                partition = producer_partition("murmur2", record.key or b"", self.partitions)
            self._producer.produce(
                self.topics.commands,
                record.value,
                record.key,
                partition,
                lambda error, _: failures.append(error) if error else None,
                headers=record.headers,  # type: ignore[arg-type]  # the stubs want a list of a wider type
            )
        assert self._producer.flush(30) == 0
        assert failures == []

    def records(self, kind: Kind, partition: int = 0) -> list[Record]:
        """Return the records of a partition, including records of open transactions."""
        topic = self.topics.name(kind)
        start, end = readers.bounds(self.connection, topic, [partition], "read_uncommitted")[partition]
        return [r for batch in readers.read(self.connection, topic, partition, start, end) for r in batch]

    def outcomes(self, partition: int = 0) -> list[OutcomeEnvelope]:
        """Return the outcomes of a partition."""
        return [read_outcome(record.value) for record in self.records("outcomes", partition)]

    def decided_offsets(self) -> list[int]:
        """Return the command offsets of the first partition's outcomes, in the order of the outcomes."""
        return [outcome.data.offset for outcome in self.outcomes()]

    def await_outcomes(self, count: int, partition: int = 0) -> None:
        """Wait until `count` outcomes of a partition exist."""
        eventually(lambda: len(self.outcomes(partition)) >= count)

    def stable_end(self, kind: Kind, partition: int = 0) -> int:
        """Return the last stable offset."""
        return readers.bounds(self.connection, self.topics.name(kind), [partition])[partition][1]

    def is_stable(self, kind: Kind) -> bool:
        """True once no transaction is open: a commit returns before its records can be read."""
        topic, numbers = self.topics.name(kind), range(self.partitions)
        stable = readers.bounds(self.connection, topic, numbers)
        return stable == readers.bounds(self.connection, topic, numbers, "read_uncommitted")

    def position_and_claim(self, partition: int = 0) -> tuple[int | None, Claim | None]:
        """Return the committed offset and its claim.

        If an owner was killed, its commit is pending until its transaction times out.
        """
        group = clients.consumer(self.connection, group=self.topics.group)
        committed = offsets.committed_offsets(group, self.topics.commands, [partition], timeout=60)[partition]
        group.close()
        return committed.offset, parse_claim(committed.metadata)

    def transaction_state(self, partition: int = 0) -> str:
        """Return the state of the writer's transaction, as the coordinator reports it."""
        id = self.topics.transactional_id(partition)
        with Admin(self.connection) as admin:
            return str(admin._client.describe_transactions([id])[id].state.value)

    def owning_run(self, partition: int = 0) -> str | None:
        """Return the run that the committed claim names."""
        claim = self.position_and_claim(partition)[1]
        return claim.run if claim else None

    def expected_decisions(self, partition: int = 0, topic_id: str = "") -> Decisions:
        """Return the decisions on all commands of a partition, made without batches, crashes and brokers. `topic_id`:
        the id of the commands topic, which the keys of deferred commands contain.
        """
        context = BatchContext(
            partition,
            lambda _: None,
            lambda *_: None,
            lambda: time.time_ns() // 1_000_000,
            lambda key: producer_partition("murmur2", key, self.partitions),
            self.topics.commands,
            max_event_bytes=1_048_588,
            deferrals=Deferrals(topic_id=topic_id, partition=partition),
        )
        return decide_batch(self.aggregate, self.records("commands", partition), context)

    def check(self, machine: str = "state") -> None:
        """Assert that each command was decided once, as in one go, and that the shards agree with the events."""
        for partition, expected in enumerate(self.check_log()):
            states = {id: pack(self.aggregate, id, folded) for id, folded in expected.states.items()}
            assert self.shard_states(machine, partition) == states

    def violations(self, machine: str | None = None) -> list[str]:
        """Return the violations that `cqrs verify` finds; with `machine`, its shards are compared too."""
        shards = None
        if machine is not None:
            shards = shards_folder_of(self.folder / machine, self.topics)
        verified = verify_in_process(plan_verify(self.connection, self.topics, self.settings, shards))
        assert all(not comparison.skip_reason for comparison in verified.comparisons.values()), (
            verified.comparisons
        )
        return [str(violation) for violation in verified.violations]

    def check_log(self) -> list[Decisions]:
        """Assert that each command was decided once, as in one go. Return the decisions by partition."""
        decided = [self.expected_decisions(partition) for partition in range(self.partitions)]
        for partition, expected in enumerate(decided):
            assert _without_decision_times(
                _record_tuples(self.records("outcomes", partition))
            ) == _without_decision_times(expected.outcomes)
            assert _record_tuples(self.records("events", partition)) == expected.events
            letters = self.records("dead-letters", partition)
            assert [(r.value, r.key, r.headers) for r in letters] == [
                (letter.value, letter.key, letter.headers) for letter in expected.dead_letters
            ]
        assert self.violations() == []
        return decided

    def shard_path(self, machine: str = "state", partition: int = 0) -> Path:
        """Return the folder of a partition's shard on a machine."""
        return self.folder / machine / self.topics.commands.removesuffix(".commands") / str(partition)

    def digest(self, machine: str = "state") -> str:
        """Return the digest of all shards, as `cqrs status --digest` and `cqrs replay` print it."""
        total = 0
        for partition in range(self.partitions):
            for id, saved in self.shard_states(machine, partition).items():
                total = digest.add_digests(total, digest.aggregate_digest(id, saved.version, saved.state))
        return digest.as_hex(total)

    def shutdown_marker(self, machine: str = "state", partition: int = 0) -> str:
        """Return the shutdown marker of a shard: `working` or `clean`."""
        return str(json.loads((self.shard_path(machine, partition) / MARKER_FILE).read_bytes())["state"])

    def shard_states(self, machine: str = "state", partition: int = 0) -> dict[str, StoredState]:
        """Return the states in a partition's shard, by subject."""
        path = self.shard_path(machine, partition)
        store = open_readonly(path)
        assert store is not None, f"the shard in {path} cannot be trusted"
        try:
            return dict(store.items())
        finally:
            store.close_without_sync()


def _without_decision_times(outcomes: Iterable[RecordTuple]) -> list[RecordTuple]:
    """Return the outcomes without the owner's clock, which the reason `EXPIRED` contains."""
    return [(_CLOCK.sub(b"", value or b""), key, timestamp) for value, key, timestamp in outcomes]


def _record_tuples(records: list[Record]) -> list[RecordTuple]:
    return [(record.value, record.key, record.timestamp) for record in records]
