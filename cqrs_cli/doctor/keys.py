"""Checks of the keyring: whether it can be read, and has every KEK that is in use. Findings contain key ids only."""

import stat
from collections.abc import Iterator, Sequence

from cqrs_cli.doctor.check import Check, fail, ok, warn
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.kek_usage import count_kek_usage
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.address import KeyRingAddress, keyring_at
from cqrs_cli.keys.keyring import Keyring

_NAME = "keys"


def check_keyring(address: KeyRingAddress | None, personal: Sequence[str], runs: bool) -> Iterator[Check]:
    """Check the keyring of a project in which these aggregates have personal fields. `runs`: for `cqrs run`.

    Raises `ConfigurationError` for a keyring that cannot be read.
    """
    if address is None:
        if personal:
            yield _missing_keyring(", ".join(personal), runs)
        return
    ring = keyring_at(address)
    more = f", and {len(ring.names) - 1} older" if len(ring.names) > 1 else ""
    file = address.file
    if file is not None and file.stat().st_mode & stat.S_IROTH:
        yield warn(_NAME, f"every user of this machine may read {address.shown}", f"chmod o-rwx {file}")
    else:
        yield ok(_NAME, f"{address.shown} has the master key {ring.current}{more}")


def _missing_keyring(names: str, runs: bool) -> Check:
    what = f"{names}: personal fields, and no keyring is set"
    hint = "set keyring to a keyring file; cqrs keys init creates one"
    if runs:
        return fail(_NAME, ConfigurationError(f"{what}: cqrs run needs them", hint))
    return warn(_NAME, f"{what}: readers see redacted values", hint)


def check_masters(connection: Cluster, topics: Topics, ring: Keyring) -> Iterator[Check]:
    """Check that the keyring has the KEKs of an aggregate's data keys. All data keys are read.

    Raises `ContradictionError` for a missing KEK.
    """
    used = {name: use.current for name, use in count_kek_usage(connection, topics).items() if use.current}
    ring.check_keks(topics.keys, used)
    under = ", ".join(f"{count:,} under {name}" for name, count in used.items())
    yield ok(
        _NAME, f"{topics.aggregate}: {counted(sum(used.values()), 'key')}{f', {under}' if under else ''}"
    )
