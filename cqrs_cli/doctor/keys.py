"""Checks that the keyring can be read, and has every KEK that is in use. Findings contain key ids only."""

import stat
from collections.abc import Iterator, Mapping, Sequence

from cqrs_cli.doctor.check import Check, fail, ok, warn
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.formatting import counted
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.keys.kek_usage import KekUsage, KeysCount
from cqrs_cli.keys.keyring import Keyring

#: The name of the check.
_NAME = "keys"


def check_keyring(
    address: KeyRingAddress | None, personal_aggregates: Sequence[str], includes_run: bool
) -> Iterator[Check]:
    """Check the keyring of a project in which the aggregates `personal_aggregates` have personal fields.

    `includes_run`: the check is for `cqrs run`, too, which needs the keyring.

    Raises `ConfigurationError` for a keyring that cannot be read.
    """
    if address is None:
        if personal_aggregates:
            yield _missing_keyring_check(", ".join(personal_aggregates), includes_run)
        return
    keyring = address.load()
    older_text = f", and {len(keyring.names) - 1} older" if len(keyring.names) > 1 else ""
    file = address.file
    if file is not None and file.stat().st_mode & stat.S_IROTH:
        yield warn(_NAME, f"every user of this machine may read {address.shown}", f"chmod o-rwx {file}")
    else:
        yield ok(_NAME, f"{address.shown} has the key-encryption key {keyring.current}{older_text}")


def _missing_keyring_check(names: str, includes_run: bool) -> Check:
    problem = f"{names}: personal fields, and no keyring is set"
    hint = "set keyring to a keyring file; cqrs keys init creates one"
    if includes_run:
        return fail(_NAME, ConfigurationError(f"{problem}: cqrs run needs a keyring", hint))
    return warn(_NAME, f"{problem}: readers see redacted values", hint)


def check_keks(connection: Cluster, topics: Topics, keyring: Keyring) -> Iterator[Check]:
    """Check that the keyring has the KEKs of an aggregate's data keys. All data keys are read.

    Raises `ContradictionError` for a missing KEK.
    """
    key_counts = {
        name: use.current for name, use in count_kek_usage(connection, topics).items() if use.current
    }
    keyring.check_keks(topics.keys, key_counts)
    kek_counts = ", ".join(f"{count:,} under {name}" for name, count in key_counts.items())
    yield ok(
        _NAME,
        f"{topics.aggregate}: {counted(sum(key_counts.values()), 'key')}{f', {kek_counts}' if kek_counts else ''}",
    )


def count_kek_usage(connection: Cluster, topics: Topics) -> Mapping[str, KekUsage]:
    """Return the use of each KEK, by name. Raises an error if the topic is missing or cannot be read to its end."""
    count = KeysCount(topics.keys)
    partitions = range(readers.partition_count(connection, topics.keys))
    bounds = readers.bounds(connection, topics.keys, partitions, "read_uncommitted")
    for partition, (start, end) in bounds.items():
        for records in readers.read(connection, topics.keys, partition, start, end):
            count.add_records(partition, records)
    return count.usage_by_kek()
