"""The keys of one partition while its shard is in use."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.state_cache import UNRESOLVED_KEYS_MARKER
from cqrs_cli.kafka.keys_log import KafkaKeysLog
from cqrs_cli.state.errors import REBUILD_HINT, CorruptError
from cqrs_cli.state.key_cache import KeyStore, MemoryKeys, open_keys
from cqrs_cli.state.store import Store


@contextmanager
def open_owner_keys(
    plan: Plan, partition: Partition, aggregate: Aggregate, path: Path | None
) -> Iterator[OwnerKeys | None]:
    """Open the keys of a partition for the block: in the folder `path`, or in memory if there is no path.

    Yields None for an aggregate without personal fields.
    """
    if not aggregate.has_personal_fields:
        yield None
        return
    aggregate_topics = plan.topics[partition.aggregate]
    keyring = plan.connection.require_keyring(partition.aggregate)
    ids = str(aggregate_topics.keys_id), aggregate_topics.ids["events"]
    key_store: KeyStore = MemoryKeys(ids) if path is None else open_keys(path, ids)
    log, number = (
        KafkaKeysLog(plan.connection, aggregate_topics.topics),
        aggregate_topics.keys_partition(partition.number),
    )
    with closing(key_store), closing(log):
        yield OwnerKeys(aggregate, log, number, keyring, key_store)


def check_no_unresolved_keys(store: Store, log_name: str) -> None:
    """Raise `CorruptError` for a shard with redacted values whose keys may be lost instead of erased: its owner ended
    before an `Erased` named every missing key. The shard is then quarantined and rebuilt from the log.
    """
    if store.get_value(UNRESOLVED_KEYS_MARKER):
        raise CorruptError(
            f"the shard of {log_name} may have redacted values whose key was lost instead of erased",
            REBUILD_HINT,
        )
