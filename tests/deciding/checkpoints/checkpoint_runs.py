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
from tests.support.owners import run_plan_task


def checkpoint_folder(harness: TopicHarness) -> Path:
    """Return the folder of the checkpoints."""
    return harness.folder / "store"


def checkpoint_plan(harness: TopicHarness, machine: str = "state", **options: Any) -> Plan:
    """Return the plan of a run with checkpoints, which writes its first checkpoint after an hour."""
    return replace(
        harness.plan(machine=machine), **{"checkpoints": str(checkpoint_folder(harness)), **options}
    )


def checkpoint_sources(harness: TopicHarness, machine: str = "state") -> list[CheckpointSource]:
    plan = checkpoint_plan(harness, machine)
    return [checkpoint_source(plan, partition, harness.aggregate) for partition in plan.partitions()]


def write_checkpoints(harness: TopicHarness, machine: str = "state") -> list[Manifest]:
    """Write a checkpoint of each shard."""
    manifests = [write_checkpoint(source) for source in checkpoint_sources(harness, machine)]
    return [manifest for manifest in manifests if manifest is not None]


def checkpoints_of(harness: TopicHarness, partition: int = 0) -> Checkpoints:
    return checkpoint_sources(harness)[partition].checkpoints()


def data_files(harness: TopicHarness) -> list[Path]:
    """Return the data files of all checkpoints, in the order of writing."""
    return sorted(checkpoint_folder(harness).rglob("*.mdb"))


def run_once(harness: TopicHarness, machine: str, **options: Any) -> list[str]:
    """Run once on a machine, and return the notes."""
    (first_result, *other_results) = run_plan_task(checkpoint_plan(harness, machine, **options))
    for result in (first_result, *other_results):
        if result.error is not None:
            raise result.error
    return [note for result in (first_result, *other_results) for note in result.notes]


def run_on_new_machine(harness: TopicHarness, machine: str = "new", **options: Any) -> list[str]:
    """Run once on a machine without shards, check its shards against the log, and return the notes."""
    shutil.rmtree(harness.folder / machine, ignore_errors=True)
    notes = run_once(harness, machine, **options)
    harness.check(machine)
    return notes


RESTORED_NOTE = "began with the checkpoint"
