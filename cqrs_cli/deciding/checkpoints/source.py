"""The location of one partition's checkpoints, and the log with which they must agree."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.history_check import history_mismatch
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.ownership.claim import parse_claim
from cqrs_cli.state.checkpoint.checkpoints import Checkpoints
from cqrs_cli.state.checkpoint.manifest import Manifest, mismatch_reason
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.store import Positions
from cqrs_cli.storage.folder import open_folder

_FOLDED_KINDS: tuple[Kind, ...] = ("commands", "events", "outcomes", "deferred")


@dataclass(frozen=True, slots=True)
class CheckpointSource:
    """The checkpoints of one partition, its shard on this machine and its log. It is pickled for a child process."""

    log: PartitionLog
    identity: Identity
    shard_folder: Path
    uri: str  # of the checkpoint store
    keep: int  # the number of checkpoints to keep

    def checkpoints(self) -> Checkpoints:
        """Return the partition's checkpoints, without a request to the store."""
        folder = open_folder(self.uri, Path("/"))
        return Checkpoints(
            folder.subfolder(self.identity.cluster_id, self.shard_folder.parent.name, str(self.log.partition))
        )

    def loss(self) -> str:
        """Return the accepted loss in the committed claim, as JSON; empty if there is none."""
        claim = parse_claim(self.log.committed_position().metadata)
        return "" if claim is None or claim.accepted is None else msgspec.json.encode(claim.accepted).decode()

    def ends(self) -> dict[str, int]:
        """Return the high watermarks of the logs from which a shard is folded."""
        return {kind: self.log.bounds(kind, "read_uncommitted")[1] for kind in _FOLDED_KINDS}

    def mismatch_reason(self, manifest: Manifest, ends: dict[str, int], loss: str) -> str:
        """Return the reason why a checkpoint may not be used; empty for a usable checkpoint. `ends` and `loss`: the
        results of `ends()` and `loss()`.
        """
        return mismatch_reason(manifest, self.identity, loss, ends) or self.history_mismatch(
            manifest.positions
        )

    def history_mismatch(self, positions: Positions) -> str:
        """Check that a shard with these positions was folded from this log; return the mismatch, or an empty text."""
        return history_mismatch(self.log, positions.last_event, positions.last_outcome)


def checkpoint_source(plan: Plan, partition: Partition, aggregate: Aggregate) -> CheckpointSource:
    """Return the checkpoint source of a partition; the plan must have checkpoints."""
    return CheckpointSource(
        plan.log(partition),
        plan.identity(partition, aggregate),
        plan.shard_folder(partition),
        plan.checkpoints,
        plan.checkpoints_kept,
    )
