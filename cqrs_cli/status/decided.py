"""The status of each partition: how far it is decided, its owner, and its shard on this machine. Needs no Spark."""

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
from confluent_kafka import KafkaException

from cqrs_cli.core import digest
from cqrs_cli.deciding.explain import hidden_commands
from cqrs_cli.deciding.plan import Partition, shard_folder
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import committed, committed_now
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.ownership.trials.slow import SlowCommand, slow_command
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.shard import open_readonly
from cqrs_cli.telemetry.blocked import blocked_by

#: An owner that has not committed for this long, by its clock and ours, decides nothing now.
_LATELY_MS = 10_000

#: Seconds between two looks at the claims, to see how fast commands are decided.
_SPEED_SECONDS = 0.5


class ShardStatus(NamedTuple):
    """A partition's state on this machine: its aggregates, bytes on disk, and the sum of their digests if asked for."""

    aggregates: int
    bytes: int
    digest: int | None


class PartitionStatus(NamedTuple):
    """Commands are in the log from `start` to `end`, and decided below `position` (None: none yet, or it expired).

    `hidden_by`: the open transaction of a client that keeps the last of them from being decided; `way_out`: its end.
    """

    partition: int
    start: int
    end: int
    position: int | None
    claim: Claim | None
    shard: ShardStatus | None
    hidden_by: OpenTransaction | None = None
    way_out: str = ""
    slow: SlowCommand | None = None  # if its owner is on this machine
    blocked: str = ""  # what its owner waits for, if that is on this machine, and there are commands

    @property
    def lag(self) -> int:
        """The number of commands that are not decided yet; an upper bound, as offsets have holes."""
        return max(0, self.end - max(self.start, self.position or 0))


class ClaimLook(NamedTuple):
    """The claims at a moment (monotonic seconds)."""

    at: float
    claims: dict[Partition, Claim | None]


def look_at_claims(
    connection: Connection, topics: Mapping[str, Topics], partitions: Iterable[Partition]
) -> ClaimLook:
    """The claims of these partitions now; `topics` by aggregate."""
    wanted = sorted(partitions)
    claims: dict[Partition, Claim | None] = {}
    for name in {partition.aggregate for partition in wanted}:
        numbers = [partition.number for partition in wanted if partition.aggregate == name]
        for number, one in committed_now(connection, topics[name], numbers).items():
            claims[Partition(name, number)] = parse_claim(one.metadata)
    return ClaimLook(time.monotonic(), claims)


def commit_speeds(before: ClaimLook, after: ClaimLook) -> dict[Partition, float]:
    """Commands a second that were decided between two looks; 0 where another run has taken over meanwhile."""
    seconds = max(after.at - before.at, 1e-3)
    speeds = dict.fromkeys(after.claims, 0.0)
    for partition, claim in after.claims.items():
        earlier = before.claims.get(partition)
        if claim is not None and earlier is not None and claim.run == earlier.run:
            speeds[partition] = max(0, claim.counts.commands - earlier.counts.commands) / seconds
    return speeds


def present_speeds(
    connection: Connection, topics: Mapping[str, Topics], found: Mapping[Partition, Claim | None]
) -> dict[Partition, float]:
    """Commands a second that are decided now. It takes half a second if an owner has committed lately, else no time."""
    now = time.time() * 1000
    busy = [
        partition
        for partition, claim in found.items()
        if claim is not None and claim.attempt != TERMINAL and now - claim.counts.last < _LATELY_MS
    ]
    speeds = dict.fromkeys(found, 0.0)
    if busy:
        before = look_at_claims(connection, topics, busy)
        time.sleep(_SPEED_SECONDS)
        speeds |= commit_speeds(before, look_at_claims(connection, topics, busy))
    return speeds


def partition_statuses(
    connection: Connection, topics: Topics, state_dir: Path, with_digest: bool = False, shards: bool = True
) -> list[PartitionStatus]:
    """Every partition of an aggregate; raises `ConfigurationError` if its topics do not exist.

    Without `shards` none is looked at: its owner keeps the state in memory, and what lies there is of long ago.
    """
    numbers, name = range(readers.partitions(connection, topics.commands)), topics.commands
    client = clients.consumer(connection, group=topics.group, isolation="read_uncommitted")
    try:
        positions = committed(client, name, numbers)
        bounds = {number: readers.watermarks(client, name, number) for number in numbers}
    except KafkaException as error:
        raise _failure(connection, topics, error) from error
    finally:
        client.close()
    stable = readers.bounds(connection, name, numbers)
    places = [(name, number) for number in numbers if stable[number][1] < bounds[number][1]]
    hidden = {one.partition: one for one in hidden_commands(connection, places)}
    seen = []
    for number in numbers:
        claim = parse_claim(positions[number].metadata)
        path = shard_folder(state_dir, topics) / str(number)
        shard = None if claim is None or not shards else _shard(path, claim.topic_id, with_digest)
        position, found = positions[number].offset, hidden.get(number)
        way_out = "" if found is None else found.way_out(connection.bootstrap_server)
        slow = slow_command(path)
        one = PartitionStatus(number, *bounds[number], position, claim, shard, found, way_out, slow)
        seen.append(one._replace(blocked=blocked_by(path) if one.lag else ""))
    return seen


def _failure(connection: Connection, topics: Topics, error: KafkaException) -> CqrsError:
    """The missing ACL, if it is one: for a group that may not be described librdkafka reports a timeout."""
    need = RequiredAcl("Describe", "group", topics.group)
    with Admin(connection) as admin:
        return need.denied("read") if admin.missing_acls([need]) else clients.failed(connection, error, need)


def _shard(path: Path, topic_id: str, with_digest: bool) -> ShardStatus | None:
    """The shard in `path`, if it can be trusted and belongs to this topic, not to an earlier one of that name."""
    store = open_readonly(path)
    if store is None:
        return None
    with closing(store):
        identity = msgspec.json.decode(store.identity(), type=Identity)
        if identity.topics.get("commands") != topic_id:
            return None
        total = None
        if with_digest:
            total = 0
            for aggregate_id, saved in store.items():
                total = digest.add(total, digest.aggregate_digest(aggregate_id, saved.version, saved.state))
        return ShardStatus(store.count(), sum(file.stat().st_blocks * 512 for file in path.iterdir()), total)
