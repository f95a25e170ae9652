"""Topics whose shards have checkpoints, and machines that start from checkpoints."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from cqrs_cli.deciding.checkpoints.source import CheckpointSource, checkpoint_source
from cqrs_cli.deciding.checkpoints.write import write_checkpoint
from cqrs_cli.deciding.plan import Plan
from cqrs_cli.state.checkpoint.checkpoints import Checkpoints
from cqrs_cli.state.checkpoint.manifest import Manifest
from tests.support.harness import TopicHarness
from tests.support.owners import owned_here


def store(harness: TopicHarness) -> Path:
    """Return the folder of the checkpoints."""
    return harness.folder / "store"


def plan(harness: TopicHarness, machine: str = "state", **options: Any) -> Plan:
    """Return the plan of a run with checkpoints, which writes its first checkpoint after an hour."""
    return replace(harness.plan(machine=machine), **{"checkpoints": str(store(harness)), **options})


def sources(harness: TopicHarness, machine: str = "state") -> list[CheckpointSource]:
    made = plan(harness, machine)
    return [checkpoint_source(made, partition, harness.aggregate) for partition in made.partitions()]


def write_all(harness: TopicHarness, machine: str = "state") -> list[Manifest]:
    """Write a checkpoint of each shard."""
    written = [write_checkpoint(source) for source in sources(harness, machine)]
    return [source for source in written if source is not None]


def checkpoints(harness: TopicHarness, partition: int = 0) -> Checkpoints:
    return sources(harness)[partition].checkpoints()


def data_files(harness: TopicHarness) -> list[Path]:
    """Return the data files of all checkpoints, in the order of writing."""
    return sorted(store(harness).rglob("*.mdb"))


def started(harness: TopicHarness, machine: str, **options: Any) -> list[str]:
    """Run once on a machine, and return the notes."""
    (ending, *others) = owned_here(plan(harness, machine, **options))
    for shard in (ending, *others):
        if shard.error is not None:
            raise shard.error
    return [note for shard in (ending, *others) for note in shard.notes]


def fresh(harness: TopicHarness, machine: str = "new", **options: Any) -> list[str]:
    """Run once on a machine without shards, check its shards against the log, and return the notes."""
    shutil.rmtree(harness.folder / machine, ignore_errors=True)
    notes = started(harness, machine, **options)
    harness.check(machine)
    return notes


BEGAN = "began with the checkpoint"
