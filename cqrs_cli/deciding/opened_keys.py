"""The ring of whoever seals, and the keys of one partition while somebody works on its shard."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.state_cache import DOUBTFUL
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.keys_log import KafkaKeysLog
from cqrs_cli.keys.address import ring_at
from cqrs_cli.keys.ring import Ring
from cqrs_cli.state.errors import REBUILD, CorruptError
from cqrs_cli.state.key_cache import KeyStore, MemoryKeys, open_keys
from cqrs_cli.state.store import Store


def required_ring(connection: Connection, aggregate: str) -> Ring:
    """The ring of an owner of this aggregate; raises `ConfigurationError` without one, and if it cannot be read."""
    if connection.keys is None:
        raise ConfigurationError(
            f"{aggregate} has personal fields, and no keys are set that seal them",
            "set personal_keys to the ring of master keys; cqrs keys init makes one",
        )
    return ring_at(connection.keys)


@contextmanager
def opened_keys(
    plan: Plan, partition: Partition, aggregate: Aggregate, path: Path | None
) -> Iterator[OwnerKeys | None]:
    """The keys of a partition while the block lasts, in the folder `path`, or without one in memory.

    None for an aggregate without personal fields: then nothing is asked or made.
    """
    if not aggregate.has_personal_fields:
        yield None
        return
    found, ring = plan.topics[partition.aggregate], required_ring(plan.connection, partition.aggregate)
    ids = str(found.keys_id), found.ids["events"]
    kept: KeyStore = MemoryKeys(ids) if path is None else open_keys(path, ids)
    log, number = KafkaKeysLog(plan.connection, found.topics), found.keys_partition(partition.number)
    with closing(kept), closing(log):
        yield OwnerKeys(aggregate, log, number, ring, kept)


def refuse_doubts(store: Store, place: str) -> None:
    """Refuse a shard with placeholders for what may not be erased: its owner ended before that was known.

    Raises `CorruptError`: it is set aside, and made from the log.
    """
    if store.noted(DOUBTFUL):
        raise CorruptError(f"the shard of {place} may miss values whose key was not there", REBUILD)
