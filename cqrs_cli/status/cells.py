"""Functions of the columns in `columns.COLUMNS`. Each gets a value from a status, combines the values of several
partitions, or formats a value.
"""

from collections.abc import Callable, Iterable
from typing import Any

from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.following.last_error import LastError
from cqrs_cli.status.partition import PartitionOwner, PartitionStatus, ShardStatus


def end_text(value: int | None) -> str:
    """Return the end of a log as text; `value` is None if the topic does not exist."""
    return "topic is gone" if value is None else f"{value:,}"


def position_text(value: int | None) -> str:
    """Return the position of an owner as text; `value` is None before the first claim."""
    return "none" if value is None else f"{value:,}"


def rate_text(rate: float | None) -> str:
    """Return records per second as text: `12,345`, or `4.2` below 10; empty if the rate is unknown."""
    if rate is None:
        return ""
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def time_text(ms: int | None) -> str:
    """Return a duration as text: `850 ms`, `12.3 s` or `5 min`; empty if it is unknown."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else f"{ms / 60_000:,.0f} min"


def owner_text(value: PartitionOwner | str | None) -> str:
    """Return the owner, or the number of owners, as text."""
    return "none" if value is None else str(value)


def shard_text(value: ShardStatus | str) -> str:
    """Return a shard's number of aggregates and its size: `1,200, 3.4 MB`. A `str` as value is the setting `store`."""
    if isinstance(value, str):
        return "in memory" if value == "memory" else "none here"
    return f"{value.aggregates:,}, {value.bytes / 1e6:,.1f} MB"


def sum_known(values: Iterable[Any]) -> Any:
    """Return the sum of the known values; None if no value is known."""
    known_values = [value for value in values if value is not None]
    return sum(known_values) if known_values else None


def largest(values: Iterable[Any]) -> Any:
    """Return the largest known value; None if no value is known."""
    return max((value for value in values if value is not None), default=None)


def distinct_texts(values: Iterable[Any]) -> Any:
    """Return all texts, each only once; None if there is no text."""
    return ", ".join(sorted({value for value in values if value})) or None


def common_owner(owners: list[PartitionOwner | None]) -> PartitionOwner | str | None:
    """Return the only owner, or a text such as `2 owners`; None without an owner. Partitions without an owner do not
    count.
    """
    known_owners = [owner for owner in owners if owner is not None]
    distinct_owners = {  # without the seconds of silence, which differ between partitions
        owner._replace(silent_seconds=None) if isinstance(owner, PartitionOwner) else owner
        for owner in known_owners
    }
    if len(distinct_owners) > 1:
        return f"{len(distinct_owners)} owners"
    return known_owners[0] if known_owners else None


def all_shards(values: list[ShardStatus | str]) -> ShardStatus | str:
    """Return the total size of the shards on this machine; without a shard, the setting `store`."""
    shards = [value for value in values if isinstance(value, ShardStatus)]
    if not shards:
        return next(iter(values), "")
    return ShardStatus(
        aggregates=sum(shard_status.aggregates for shard_status in shards),
        bytes=sum(shard_status.bytes for shard_status in shards),
        digest=None,
    )


def owner_since(status: PartitionStatus) -> str | None:
    """Return the time at which the owner's run began."""
    started_at = None if status.owner is None else status.owner.since
    return None if started_at is None else rfc3339(started_at)


def shard_or_store(status: PartitionStatus) -> ShardStatus | str:
    """Return the shard, or the setting `store` if this machine has no shard."""
    return status.store if status.shard is None else status.shard


def rate_getter(name: str) -> Callable[[PartitionStatus], float | None]:
    """Return a getter of a partition's rate: an attribute of `Rates`, such as `sent`."""
    return lambda status: None if status.rates is None else getattr(status.rates, name)


def count_getter(name: str) -> Callable[[PartitionStatus], int | None]:
    """Return a getter of a partition's count: an attribute of `Counts`, such as `events`."""
    return lambda status: None if status.counts is None else getattr(status.counts, name)


def decisions_by_status(status: PartitionStatus) -> dict[str, int]:
    """Return the number of decisions by status: `{"accepted": 12, "rejected": 1, …}`."""
    return {} if status.counts is None else {name: getattr(status.counts, name) for name in STATUSES}


def commit_seconds(status: PartitionStatus) -> float | None:
    """Return the seconds that the commits of the owner's run took."""
    return None if status.counts is None else status.counts.commit_us / 1_000_000


def per_second(status: PartitionStatus) -> float:
    """Return the decisions per second for JSON: 0 if the rate is unknown."""
    return 0.0 if status.rates is None else round(status.rates.done, 1)


def owner_json(status: PartitionStatus) -> Any:
    """Return the owner for JSON: the data of its claim, or for a projection only the run's name."""
    owner, counts = status.owner, status.counts
    if owner is None or owner.since is None:
        return None if owner is None else owner.run
    document: dict[str, Any] = {"run": owner.run, "since": rfc3339(owner.since), "stopped": owner.stopped}
    document["silent_seconds"] = owner.silent_seconds
    if counts is not None:
        document |= {
            name: getattr(counts, name) for name in ("commands", *STATUSES, "events", "transactions")
        }
        document["last"] = rfc3339(counts.last) if counts.last else None
        document["commit_ms"] = round(counts.commit_us / 1000 / (counts.transactions or 1), 1)
        document["per_second"] = per_second(status)
    return document


def error_getter(name: str) -> Callable[[PartitionStatus], Any]:
    """Return a getter of an error for JSON: an attribute of a status, such as `last_error`."""

    def error_json(status: PartitionStatus) -> Any:
        error: LastError | None = getattr(status, name)
        return None if error is None else error.document()

    return error_json


def slow_command_json(status: PartitionStatus) -> Any:
    """Return the command whose decision has taken seconds already, for JSON."""
    slow = status.slow_command
    return None if slow is None else {"offset": slow.offset, "since": rfc3339(int(slow.since * 1000))}


def shard_json(status: PartitionStatus) -> Any:
    """Return the shard for JSON."""
    shard_status = status.shard
    return (
        None if shard_status is None else {"aggregates": shard_status.aggregates, "bytes": shard_status.bytes}
    )


def hiding_transaction_json(status: PartitionStatus) -> Any:
    """Return the transaction that hides commands, for JSON."""
    transaction = status.hiding_transaction
    if transaction is None:
        return None
    return {
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "offset": transaction.first_offset,
        "since": rfc3339(transaction.began_at),
        "way_out": status.remedy_command,
    }
