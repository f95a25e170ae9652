"""Leaves the transactions of a repartitioning from 1 to 2 partitions hanging: split, activation, forwarding."""

from collections.abc import Callable

from confluent_kafka import TopicPartition
from msgspec.structs import replace

from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.deferral.entry import read_deferral
from cqrs_cli.keyspace.records import Begun, LineageRecord, Split
from cqrs_cli.ownership.claim import Claim
from tests.deciding.repartitioned_counters import SUBJECTS, round_commands
from tests.support.commands import CommandRecord
from tests.support.hanging_transactions import HangingTransaction, Output
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.raw_requests import RawClient
from tests.support.repartitioning import with_stale_partition


def split_transaction(harness: TopicHarness) -> HangingTransaction:
    """Return the transaction in which 0 gives keys to 1. Its parts are `lineage` and `position`."""
    offset, claim = harness.position_and_claim()
    assert offset is not None and claim is not None
    events, outcomes, deferred = (harness.stable_end(kind) for kind in ("events", "outcomes", "deferred"))
    clock = harness.records("commands")[-1].timestamp
    record = Split(0, 1, 2, offset, events, outcomes, deferred, clock)
    return _transaction(harness, 0, offset, claim, {"lineage": _lineage_output(harness, record)})


def activation_transaction(harness: TopicHarness) -> HangingTransaction:
    """Return the transaction that activates 1 and imports deferred commands: `entries`, `lineage` and `position`."""
    claim = harness.position_and_claim()[1]
    assert claim is not None
    deferrals = [read_deferral(record.key, record.value or b"") for record in harness.records("deferred")]
    own_entries = [
        replace(entry, partition=0) for entry in deferrals if harness.partition_of(entry.subject) == 1
    ]
    entries = [(entry.value(), entry.key.encode(), 0) for entry in own_entries]
    parts = {
        "entries": Output(harness.topics.deferred, 1, entries),
        "lineage": _lineage_output(harness, Begun(1)),
    }
    return _transaction(harness, 1, 0, claim, parts)


def forward_transaction(harness: TopicHarness) -> HangingTransaction:
    """Return the transaction that forwards undecided commands from 0 to 1: `commands`, `outcomes` and `position`."""
    offset, claim = harness.position_and_claim()
    assert offset is not None and claim is not None
    records = [record for record in harness.records("commands") if record.offset >= offset]
    context = BatchContext(
        0, lambda _: None, lambda *_: None, lambda: 0, lambda _: 1, forward_target_of=lambda _: 1
    )
    decided = decide_batch(harness.aggregate, records, context)
    forwarded_commands = [(forward.value, forward.key, 0) for forward in decided.forwards]
    parts = {
        "commands": Output(harness.topics.commands, 1, forwarded_commands),
        "outcomes": Output(harness.topics.outcomes, 0, decided.outcomes),
    }
    return _transaction(harness, 0, records[-1].offset + 1, claim, parts)


def advance_to(
    harness: TopicHarness, broker: RawClient, begin_transaction: Callable[[TopicHarness], HangingTransaction]
) -> None:
    """Advance the repartitioning to this transaction. For `forward`, a round of commands is sent to 0."""
    if begin_transaction is activation_transaction:
        split_transaction(harness).write(harness.connection, broker, ["lineage", "position"], [])
    elif begin_transaction is forward_transaction:
        commands: dict[int, list[CommandRecord]] = {0: [], 1: []}
        for subject, command in zip(SUBJECTS, round_commands(2), strict=True):
            commands[harness.partition_of(subject)].append(with_stale_partition(command, 1))
        harness.send(*commands[0])
        run_plan(harness.plan())
        harness.send(*commands[1])


def _lineage_output(harness: TopicHarness, record: LineageRecord) -> Output:
    return Output(harness.topics.lineage, 0, [(record.encode(), None, 0)])


def _transaction(
    harness: TopicHarness, partition: int, offset: int, claim: Claim, outputs: dict[str, Output]
) -> HangingTransaction:
    """Return a transaction of a partition's owner, whose claim has two partitions."""
    topics, metadata = harness.topics, replace(claim, partitions=2).metadata()
    committed_offset = TopicPartition(topics.commands, partition, offset, metadata)
    return HangingTransaction(topics.transactional_id(partition), topics.group, outputs, committed_offset)
