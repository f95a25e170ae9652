"""Leaves the transactions of a repartitioning from 1 to 2 partitions hanging: split, activation, forwarding."""

from collections.abc import Callable

from confluent_kafka import TopicPartition
from msgspec.structs import replace

from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.deferral.entry import read_deferral
from cqrs_cli.core.messages.repartitioning import Begun, LineageRecord, Split, lineage_value
from cqrs_cli.ownership.claim import Claim
from tests.deciding.repartitioned_counters import SUBJECTS, round_commands
from tests.support.commands import Sent
from tests.support.hanging_transactions import Hanging, Output
from tests.support.harness import TopicHarness
from tests.support.owners import quietly
from tests.support.raw_requests import Raw
from tests.support.repartitioning import stale


def split(harness: TopicHarness) -> Hanging:
    """Return the transaction in which 0 gives keys to 1. Its parts are `lineage` and `position`."""
    offset, claim = harness.standing()
    assert offset is not None and claim is not None
    events, outcomes, deferred = (harness.end(kind) for kind in ("events", "outcomes", "deferred"))
    clock = harness.records("commands")[-1].timestamp
    record = Split(0, 1, 2, offset, events, outcomes, deferred, clock)
    return _transaction(harness, 0, offset, claim, {"lineage": _noted(harness, record)})


def begin(harness: TopicHarness) -> Hanging:
    """Return the transaction that activates 1 and imports deferred commands: `entries`, `lineage` and `position`."""
    claim = harness.standing()[1]
    assert claim is not None
    deferrals = [read_deferral(record.key, record.value or b"") for record in harness.records("deferred")]
    own_entries = [replace(entry, partition=0) for entry in deferrals if harness.home(entry.subject) == 1]
    entries = [(entry.value(), entry.key.encode(), 0) for entry in own_entries]
    parts = {
        "entries": Output(harness.topics.deferred, 1, entries),
        "lineage": _noted(harness, Begun(1)),
    }
    return _transaction(harness, 1, 0, claim, parts)


def forward(harness: TopicHarness) -> Hanging:
    """Return the transaction that forwards undecided commands from 0 to 1: `commands`, `outcomes` and `position`."""
    offset, claim = harness.standing()
    assert offset is not None and claim is not None
    records = [record for record in harness.records("commands") if record.offset >= offset]
    context = BatchContext(
        0, lambda _: None, lambda *_: None, lambda: 0, lambda _: 1, forward_target_of=lambda _: 1
    )
    decided = decide_batch(harness.aggregate, records, context)
    moved = [(forward.value, forward.key, 0) for forward in decided.forwards]
    parts = {
        "commands": Output(harness.topics.commands, 1, moved),
        "outcomes": Output(harness.topics.outcomes, 0, decided.outcomes),
    }
    return _transaction(harness, 0, records[-1].offset + 1, claim, parts)


def reach(harness: TopicHarness, broker: Raw, begin_transaction: Callable[[TopicHarness], Hanging]) -> None:
    """Advance the repartitioning to this transaction. For `forward`, a round of commands is sent to 0."""
    if begin_transaction is begin:
        split(harness).leave(harness.connection, broker, ["lineage", "position"], [])
    elif begin_transaction is forward:
        sent: dict[int, list[Sent]] = {0: [], 1: []}
        for subject, command in zip(SUBJECTS, round_commands(2), strict=True):
            sent[harness.home(subject)].append(stale(command, 1))
        harness.send(*sent[0])
        quietly(harness.plan())
        harness.send(*sent[1])


def _noted(harness: TopicHarness, growth: LineageRecord) -> Output:
    return Output(harness.topics.lineage, 0, [(lineage_value(growth), None, 0)])


def _transaction(
    harness: TopicHarness, partition: int, offset: int, claim: Claim, outputs: dict[str, Output]
) -> Hanging:
    """Return a transaction of a partition's owner, whose claim has two partitions."""
    topics, metadata = harness.topics, replace(claim, partitions=2).metadata()
    place = TopicPartition(topics.commands, partition, offset, metadata)
    return Hanging(topics.transactional_id(partition), topics.group, outputs, place)
