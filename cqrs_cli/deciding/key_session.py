"""Opens the data keys of a partition for its owner, and checks a shard for values whose key may be lost."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.state_cache import UNRESOLVED_KEYS_MARKER
from cqrs_cli.kafka.keys_log import KafkaKeysLog
from cqrs_cli.state.errors import REBUILD_HINT, CorruptError
from cqrs_cli.state.key_cache import KeyStore, MemoryKeys, open_key_cache
from cqrs_cli.state.store import Store


@contextmanager
def open_owner_keys(
    plan: Plan, partition: Partition, aggregate: Aggregate, path: Path | None
) -> Iterator[OwnerKeys | None]:
    """Open the keys of a partition for the `with` block. They are stored in the folder `path`, or in memory if `path`
    is None.

    Yield None for an aggregate without personal fields.
    """
    if not aggregate.has_personal_fields:
        yield None
        return
    aggregate_topics = plan.topics[partition.aggregate]
    keyring = plan.connection.require_keyring(partition.aggregate)
    topic_ids = str(aggregate_topics.keys_id), aggregate_topics.ids["events"]
    key_store: KeyStore = MemoryKeys(topic_ids) if path is None else open_key_cache(path, topic_ids)
    keys_log = KafkaKeysLog(plan.connection, aggregate_topics.topics)
    keys_partition = aggregate_topics.keys_partition(partition.number)
    with closing(key_store), closing(keys_log):
        yield OwnerKeys(aggregate, keys_log, keys_partition, keyring, key_store)


def check_no_unresolved_keys(store: Store, log_name: str) -> None:
    """Raise `CorruptError` for a shard with redacted values whose keys may be lost instead of erased. The last owner of
    such a shard ended before it had read an `Erased` for every missing key. The shard is then quarantined and rebuilt
    from the log.
    """
    if store.get_value(UNRESOLVED_KEYS_MARKER):
        raise CorruptError(
            f"the shard of {log_name} may have redacted values whose key was lost instead of erased",
            REBUILD_HINT,
        )
