"""The partitions that `cqrs status` found: as JSON, and as a table for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cqrs_cli.deciding.plan import Partition
    from cqrs_cli.kafka.admin.transactions import OpenTransaction
    from cqrs_cli.ownership.claim import Claim
    from cqrs_cli.status.decided import PartitionStatus


def status_document(
    seen: Mapping[str, Sequence["PartitionStatus"]],
    missing: Sequence[str],
    with_digest: bool,
    speeds: Mapping["Partition", float],
    store: str = "lmdb",
) -> dict[str, Any]:
    """`speeds`: commands a second that are decided now. `store`: the setting."""
    every = [part for parts in seen.values() for part in parts]
    written: dict[str, Any] = {
        "lag": sum(part.lag for part in every),
        "commands": sum(map(_decided, every)),
        "per_second": round(sum(speeds.values()), 1),
        "store": store,
    }
    if with_digest:
        written["digest"] = _digest(every)
    written["aggregates"] = {
        name: {
            "lag": sum(part.lag for part in parts),
            "commands": sum(map(_decided, parts)),
            "per_second": round(sum(_speed(speeds, name, part) for part in parts), 1),
            **({"digest": _digest(parts)} if with_digest else {}),
            "partitions": [_partition(part, _speed(speeds, name, part)) for part in parts],
        }
        for name, parts in seen.items()
    }
    written["missing"] = missing
    return written


def _digest(parts: Sequence["PartitionStatus"]) -> str | None:
    """The sum over the shards; None where one is not on this machine."""
    from cqrs_cli.core import digest

    total = 0
    for part in parts:
        if part.shard is None or part.shard.digest is None:
            return None
        total = digest.add(total, part.shard.digest)
    return digest.as_hex(total)


def _speed(speeds: Mapping["Partition", float], name: str, part: "PartitionStatus") -> float:
    from cqrs_cli.deciding.plan import Partition

    return speeds.get(Partition(name, part.partition), 0.0)


def _decided(part: "PartitionStatus") -> int:
    return 0 if part.claim is None else part.claim.counts.commands


def _partition(part: "PartitionStatus", speed: float) -> dict[str, Any]:
    shard = part.shard
    return {
        "partition": part.partition,
        "start": part.start,
        "end": part.end,
        "position": part.position,
        "lag": part.lag,
        "owner": None if part.claim is None else _owner(part.claim, speed),
        "trial": None if part.claim is None or part.claim.trial is None else str(part.claim.trial),
        "deciding": None
        if part.slow is None
        else {"offset": part.slow.offset, "since": _time(part.slow.since)},
        "waits_for": part.blocked or None,
        "state": None if shard is None else {"aggregates": shard.aggregates, "bytes": shard.bytes},
        "hidden_by": None if part.hidden_by is None else _transaction(part.hidden_by, part.way_out),
    }


def _time(seconds: float) -> str:
    from cqrs_cli.core.messages.timestamps import rfc3339

    return rfc3339(int(seconds * 1000))


def _transaction(found: "OpenTransaction", way_out: str) -> dict[str, Any]:
    from cqrs_cli.core.messages.timestamps import rfc3339

    return {
        "transactional_id": found.transactional_id,
        "producer_id": found.producer_id,
        "offset": found.first_offset,
        "since": rfc3339(found.since),
        "way_out": way_out,
    }


def _owner(claim: "Claim", speed: float) -> dict[str, Any]:
    from cqrs_cli.core.messages.reasons import STATUSES
    from cqrs_cli.core.messages.timestamps import rfc3339
    from cqrs_cli.ownership.claim import TERMINAL

    counts = claim.counts
    return {
        "run": claim.run,
        "since": rfc3339(claim.run_epoch),
        "stopped": claim.attempt == TERMINAL,
        "commands": counts.commands,
        **{name: getattr(counts, name) for name in (*STATUSES, "events")},
        "last": rfc3339(counts.last) if counts.last else None,
        "per_second": round(speed, 1),
    }


def status_table(
    seen: Mapping[str, Sequence["PartitionStatus"]],
    with_digest: bool,
    speeds: Mapping["Partition", float],
    store: str = "lmdb",
) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for header in (
        "partition",
        "log end",
        "decided to",
        "lag",
        "owner",
        "since",
        "commands",
        "per s",
        "state",
    ):
        table.add_column(header, justify="left" if header in ("partition", "owner", "since") else "right")
    nowhere = "in memory" if store == "memory" else "none here"
    for name, parts in seen.items():
        for part in parts:
            table.add_row(f"{name} {part.partition}", *_cells(part, _speed(speeds, name, part), nowhere))
    every = [part for parts in seen.values() for part in parts]
    if len(every) > 1:
        table.add_row("total", *_totals(every, sum(speeds.values()), nowhere), style="bold")
    lines: list[RenderableType] = [table, *_remarks(seen)]
    if with_digest:
        lines += [
            f"digest of {name}: {_digest(parts) or _without_digest(name, store)}"
            for name, parts in seen.items()
        ]
    return Group(*lines)


def _without_digest(name: str, store: str) -> str:
    if store == "memory":
        return f"the states are in the memory of their owners; from the events: cqrs replay {name}"
    return "not all of it is on this machine"


def _remarks(seen: Mapping[str, Sequence["PartitionStatus"]]) -> Iterator["RenderableType"]:
    """Everything that keeps partitions from deciding: hidden commands, commands on trial, slow ones, and payloads."""
    from rich.text import Text

    places = [(f"{name} {part.partition}", part) for name, parts in seen.items() for part in parts]
    yield from (Text(f"{part.hidden_by.hiding()}; {part.way_out}") for _, part in places if part.hidden_by)
    for place, part in places:
        if part.lag and part.claim is not None and part.claim.trial is not None:
            yield f"{place}: {part.claim.trial}"
    yield from (f"{place}: {part.slow}" for place, part in places if part.slow is not None)
    yield from (Text(f"{place} waits: {part.blocked}") for place, part in places if part.blocked)


def _totals(every: Sequence["PartitionStatus"], speed: float, nowhere: str) -> tuple[str, ...]:
    shards = [part.shard for part in every if part.shard is not None]
    aggregates, size = sum(shard.aggregates for shard in shards), sum(shard.bytes for shard in shards)
    state = f"{aggregates:,}, {size / 1e6:,.1f} MB" if shards else nowhere
    lag, decided = sum(part.lag for part in every), sum(map(_decided, every))
    return "", "", f"{lag:,}", "", "", f"{decided:,}", f"{speed:,.0f}", state


def _cells(part: "PartitionStatus", speed: float, nowhere: str) -> tuple[str, ...]:
    decided = "none" if part.position is None else f"{part.position:,}"
    state = nowhere if part.shard is None else f"{part.shard.aggregates:,}, {part.shard.bytes / 1e6:,.1f} MB"
    if part.claim is None:
        return f"{part.end:,}", decided, f"{part.lag:,}", "none", "", "", "", state
    owner = _owner(part.claim, speed)
    run = f"{owner['run']}{' (stopped)' if owner['stopped'] else ''}"
    return (
        f"{part.end:,}",
        decided,
        f"{part.lag:,}",
        run,
        owner["since"],
        f"{owner['commands']:,}",
        f"{speed:,.0f}",
        state,
    )
