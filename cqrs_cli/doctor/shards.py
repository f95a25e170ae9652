"""Finds shards on this machine whose states were folded by other code, although the revision has not changed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.doctor.check import Check, ok, warn
from cqrs_cli.errors import CqrsError
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.shard import open_readonly


def check_revision(folder: Path, aggregate: Aggregate) -> Iterator[Check]:
    """Warn if `evolve` has changed but not its revision: a shard keeps the states that the old code folded."""
    shards = sorted(path for path in folder.glob("*") if path.name.isdecimal()) if folder.is_dir() else []
    stale_partitions = [path.name for path in shards if _is_stale(path, aggregate)]
    revision = aggregate.decider.revision
    if stale_partitions:
        yield warn(
            "revision",
            f"evolve of {aggregate.name} changed but not its revision, {revision}: "
            f"partition {', '.join(stale_partitions)}",
            f"if its meaning changed, raise the revision: Decider(…, revision={revision + 1}); compare with: "
            f"cqrs verify {aggregate.name} --state",
        )
    elif shards:
        yield ok("revision", f"{aggregate.name}: its shards were folded by this evolve, or will be rebuilt")


def _is_stale(path: Path, aggregate: Aggregate) -> bool:
    """True for a shard that this code would continue although other code has folded it."""
    try:
        store = open_readonly(path)
    except CqrsError:
        return False
    if store is None:
        return False
    with closing(store):
        try:
            identity = msgspec.json.decode(store.identity(), type=Identity)
        except msgspec.DecodeError:
            return False
        is_same_identity = (identity.schema, identity.revision) == (
            aggregate.schema_digest,
            aggregate.decider.revision,
        )
        return is_same_identity and store.code_digest() not in ("", aggregate.fold_digest)
