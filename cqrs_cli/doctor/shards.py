"""Checks of the shards on this machine: whether today's code would have folded them alike."""

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
    """Warn of an `evolve` that changed although its revision did not: a shard keeps states that the old one folded."""
    shards = sorted(path for path in folder.glob("*") if path.name.isdecimal()) if folder.is_dir() else []
    stale = [path.name for path in shards if _is_stale(path, aggregate)]
    revision = aggregate.decider.revision
    if stale:
        yield warn(
            "revision",
            f"evolve of {aggregate.name} changed but not its revision, {revision}: partition {', '.join(stale)}",
            f"if it means something else now, raise the revision: Decider(…, revision={revision + 1}); compare with: "
            f"cqrs verify {aggregate.name} --state",
        )
    elif shards:
        yield ok("revision", f"{aggregate.name}: its shards are of this evolve, or will be rebuilt")


def _is_stale(path: Path, aggregate: Aggregate) -> bool:
    """True for a shard that this code would go on with, though other code has folded it."""
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
        same = (identity.schema, identity.revision) == (aggregate.schema_digest, aggregate.decider.revision)
        return same and store.code_digest() not in ("", aggregate.fold_digest)
