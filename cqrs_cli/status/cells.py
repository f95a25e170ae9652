"""The values of columns: as text for people, as JSON, and summed over several partitions."""

from collections.abc import Callable, Iterable
from typing import Any

from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.status.partition import PlaceOwner, PlaceStatus, ShardStatus


def end_text(value: int | None) -> str:
    return "topic is gone" if value is None else f"{value:,}"


def position_text(value: int | None) -> str:
    return "none" if value is None else f"{value:,}"


def rate_text(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def time_text(ms: int | None) -> str:
    """Return a duration as text."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms / 60_000:,.0f} min"


def owner_text(value: PlaceOwner | str | None) -> str:
    return "none" if value is None else str(value)


def shard_text(value: ShardStatus | str) -> str:
    """Return a shard's number of aggregates and size, or where else the states are."""
    if isinstance(value, str):
        return "in memory" if value == "memory" else "none here"
    return f"{value.aggregates:,}, {value.bytes / 1e6:,.1f} MB"


def added(values: Iterable[Any]) -> Any:
    """Return the sum of the known values; None if no value is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def largest(values: Iterable[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)


def each_word(values: Iterable[Any]) -> Any:
    """Return all texts, each only once; None if there is no text."""
    return ", ".join(sorted({value for value in values if value})) or None


def one_owner(owners: list[PlaceOwner | None]) -> PlaceOwner | str | None:
    """Return the owner if all partitions have the same owner, else the number of owners."""
    different = set(map(owner_text, owners))
    return f"{len(different)} owners" if len(different) > 1 else owners[0] if owners else None


def all_shards(values: list[ShardStatus | str]) -> ShardStatus | str:
    """Return the sum of the existing shards."""
    found = [value for value in values if isinstance(value, ShardStatus)]
    if not found:
        return next(iter(values), "")
    return ShardStatus(sum(one.aggregates for one in found), sum(one.bytes for one in found), None)


def since(place: PlaceStatus) -> str | None:
    """Return the time at which the owner's run began."""
    began = None if place.owner is None else place.owner.since
    return None if began is None else rfc3339(began)


def shard(place: PlaceStatus) -> ShardStatus | str:
    """Return the shard, or the setting `store` if this machine has no shard."""
    return place.store if place.shard is None else place.shard


def rate(name: str) -> Callable[[PlaceStatus], float | None]:
    """Return a function that returns one of the rates."""
    return lambda place: None if place.rates is None else getattr(place.rates, name)


def count(name: str) -> Callable[[PlaceStatus], int | None]:
    """Return a function that returns one of the counts."""
    return lambda place: None if place.counts is None else getattr(place.counts, name)


def verdicts(place: PlaceStatus) -> dict[str, int]:
    """Return the number of decisions by status."""
    return {} if place.counts is None else {name: getattr(place.counts, name) for name in STATUSES}


def per_second(place: PlaceStatus) -> float:
    """Return the decisions per second for JSON: 0 if the rate is unknown."""
    return 0.0 if place.rates is None else round(place.rates.done, 1)


def owner_json(place: PlaceStatus) -> Any:
    """Return the owner's data from its claim; for a projection, only the owner's name."""
    owner, counts = place.owner, place.counts
    if owner is None or owner.since is None:
        return None if owner is None else owner.run
    found: dict[str, Any] = {"run": owner.run, "since": rfc3339(owner.since), "stopped": owner.stopped}
    if counts is not None:
        found |= {name: getattr(counts, name) for name in ("commands", *STATUSES, "events")}
        found["last"] = rfc3339(counts.last) if counts.last else None
        found["per_second"] = per_second(place)
    return found


def slow(place: PlaceStatus) -> Any:
    """Return the command whose decision has taken seconds."""
    found = place.slow
    return None if found is None else {"offset": found.offset, "since": rfc3339(int(found.since * 1000))}


def shard_json(place: PlaceStatus) -> Any:
    found = place.shard
    return None if found is None else {"aggregates": found.aggregates, "bytes": found.bytes}


def hidden(place: PlaceStatus) -> Any:
    """Return the transaction that hides commands."""
    found = place.hidden_by
    if found is None:
        return None
    return {
        "transactional_id": found.transactional_id,
        "producer_id": found.producer_id,
        "offset": found.first_offset,
        "since": rfc3339(found.since),
        "way_out": place.way_out,
    }
