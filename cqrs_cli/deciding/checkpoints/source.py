"""The location of one partition's checkpoints, and the log with which they must agree."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.ownership.claim import parse_claim
from cqrs_cli.state.checkpoint.checkpoints import Checkpoints
from cqrs_cli.state.checkpoint.manifest import Evidence, Manifest, evidence, unfit
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.store import Positions
from cqrs_cli.storage.folder import open_folder

#: The logs whose last record below a checkpoint's position is stored with it. Every decision is in them.
WITNESSES: tuple[Kind, ...] = ("events", "outcomes")

_FOLDED: tuple[Kind, ...] = ("commands", "events", "outcomes", "deferred")


@dataclass(frozen=True, slots=True)
class CheckpointSource:
    """One partition: its log, its shard on this machine, and its folder in the store. It can be pickled."""

    log: PartitionLog
    identity: Identity
    shard: Path
    uri: str
    keep: int

    def checkpoints(self) -> Checkpoints:
        """Return its checkpoints, without a request to the store."""
        folder = open_folder(self.uri, Path("/"))
        return Checkpoints(
            folder.within(self.identity.cluster_id, self.shard.parent.name, str(self.log.partition))
        )

    def loss(self) -> str:
        """Return the accepted loss in the committed claim, as JSON; empty if there is none."""
        claim = parse_claim(self.log.committed_position().metadata)
        return "" if claim is None or claim.accepted is None else msgspec.json.encode(claim.accepted).decode()

    def witness(self, positions: Positions) -> dict[str, Evidence | None]:
        """Return the evidence for these positions; raises `ContradictionError` if a log ends before its position."""
        found: dict[str, Evidence | None] = {}
        for kind in WITNESSES:
            at = getattr(positions, kind)
            start, end = self.log.bounds(kind)
            if at > end:
                raise ContradictionError(f"{self.log.log_name(kind)} ends at {end}, its shard is at {at}")
            last = self.log.last_record(kind, start, at) if start < at else None
            found[kind] = None if last is None else evidence(last)
        return found

    def ends(self) -> dict[str, int]:
        """Return the high watermarks of the logs from which a shard is folded."""
        return {kind: self.log.bounds(kind, "read_uncommitted")[1] for kind in _FOLDED}

    def unfit(self, manifest: Manifest, ends: dict[str, int], loss: str) -> str:
        """Return the reason why a checkpoint may not be used; empty if it may."""
        return unfit(manifest, self.identity, loss, ends) or self._contradicted(manifest)

    def _contradicted(self, manifest: Manifest) -> str:
        for kind in WITNESSES:
            noted, at = manifest.evidence.get(kind), getattr(manifest.positions, kind)
            start = self.log.bounds(kind)[0]
            if noted is None:
                matches = start >= at or self.log.last_record(kind, start, at) is None
            else:
                matches = start <= noted.offset and noted.holds(
                    self.log.first_record(kind, noted.offset, noted.offset + 1)
                )
            if not matches:
                return f"{self.log.log_name(kind)} does not hold what it held then"
        return ""


def checkpoint_source(plan: Plan, partition: Partition, aggregate: Aggregate) -> CheckpointSource:
    """Return the checkpoint source of a partition; the plan must have checkpoints."""
    return CheckpointSource(
        plan.log(partition),
        plan.identity(partition, aggregate),
        plan.shard(partition),
        plan.checkpoints,
        plan.checkpoints_kept,
    )
