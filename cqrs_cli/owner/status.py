"""The status of each partition: how far it is decided, its owner, and its shard on this machine. Needs no Spark."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
from confluent_kafka import KafkaException

from cqrs_cli.core import digest
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import committed
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.owner.claim import Claim, parse_claim
from cqrs_cli.owner.explain import hidden_commands
from cqrs_cli.owner.plan import shard_folder
from cqrs_cli.owner.trials.slow import SlowCommand, slow_command
from cqrs_cli.state.shard import Identity, open_readonly


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

    @property
    def lag(self) -> int:
        """The number of commands that are not decided yet; an upper bound, as offsets have holes."""
        return max(0, self.end - max(self.start, self.position or 0))


def partition_statuses(
    connection: Connection, topics: Topics, state_dir: Path, with_digest: bool = False
) -> list[PartitionStatus]:
    """Every partition of an aggregate; raises `ConfigurationError` if its topics do not exist."""
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
        shard = None if claim is None else _shard(path, claim.topic_id, with_digest)
        position, found = positions[number].offset, hidden.get(number)
        way_out = "" if found is None else found.way_out(connection.bootstrap_server)
        slow = slow_command(path)
        seen.append(PartitionStatus(number, *bounds[number], position, claim, shard, found, way_out, slow))
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
