"""A snapshot of all partitions as a JSON document, for `cqrs status` and the console."""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from cqrs_cli.core import digest
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.status.columns import partition_document
from cqrs_cli.status.partition import AGGREGATE, PROCESS, PROJECTION, PartitionStatus, standbys_by_name
from cqrs_cli.status.rates import StatusSnapshot


def partition_documents(statuses: Iterable[PartitionStatus]) -> list[Any]:
    """Return partitions as JSON."""
    return [partition_document(status) for status in statuses]


def status_document(
    snapshot: StatusSnapshot,
    store: str,
    with_digest: bool = False,
    partitions: Callable[[Iterable[PartitionStatus]], list[Any]] = partition_documents,
) -> dict[str, Any]:
    """Return the snapshot as JSON. `store`: the setting `store`, "lmdb" or "memory". `partitions` returns the documents
    of an aggregate's or process manager's partitions.
    """
    aggregate_statuses = [status for status in snapshot.statuses if status.kind is AGGREGATE]
    document = {"time": rfc3339(snapshot.clock), **_sums(aggregate_statuses), "store": store}
    if with_digest:
        document["digest"] = digest_text(aggregate_statuses)
    document["aggregates"] = {
        name: {
            **_sums(statuses),
            **({"digest": digest_text(statuses)} if with_digest else {}),
            "standbys": standbys_by_name(statuses).get(name, []),
            "partitions": partitions(statuses),
        }
        for name, statuses in statuses_by_name(aggregate_statuses)
    }
    document["missing"] = list(snapshot.missing)
    for key, kind in (("processes", PROCESS), ("projections", PROJECTION)):
        groups = statuses_by_name(status for status in snapshot.statuses if status.kind is kind)
        if groups or kind is PROCESS:
            document[key] = {
                name: {"lag": sum(status.lag or 0 for status in statuses), "partitions": partitions(statuses)}
                for name, statuses in groups
            }
    return document


def statuses_by_name(statuses: Iterable[PartitionStatus]) -> list[tuple[str, list[PartitionStatus]]]:
    """Return the statuses of each aggregate, process or projection, in their order."""
    return [(name, list(group)) for name, group in groupby(statuses, lambda status: status.name)]


def _sums(statuses: Sequence[PartitionStatus]) -> dict[str, Any]:
    return {
        "lag": sum(status.lag or 0 for status in statuses),
        "commands": sum(status.counts.commands for status in statuses if status.counts is not None),
        "per_second": round(sum(status.rates.done for status in statuses if status.rates is not None), 1),
    }


def digest_text(statuses: Iterable[PartitionStatus]) -> str | None:
    """Return the digest of all states in the shards; None if a shard is not on this machine."""
    total = 0
    for status in statuses:
        if status.shard is None or status.shard.digest is None:
            return None
        total = digest.add_digests(total, status.shard.digest)
    return digest.as_hex(total)
