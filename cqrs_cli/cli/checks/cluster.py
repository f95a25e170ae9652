"""The doctor's checks of the cluster, of the project's data on the cluster, and of the checkpoint store."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from cqrs_cli.cli.checks.project import personal_aggregates, process_topic_access
from cqrs_cli.cli.context import Cli
from cqrs_cli.kafka.topics.acls import Role

if TYPE_CHECKING:
    from cqrs_cli.doctor.check import Check
    from cqrs_cli.settings.settings import Settings
    from cqrs_cli.state.checkpoint.manifest import Manifest


def check_brokers(cli: Cli, settings: "Settings", role: Role | None) -> "Iterator[Check]":
    """Yield the checks of the cluster, if a broker runs. The embedded broker is not started for the checks."""
    from cqrs_cli.doctor import cluster
    from cqrs_cli.doctor.check import run_check

    if settings.bootstrap_server is None:
        checks = list(run_check("embedded", lambda: cluster.check_embedded(settings.root)))
        yield from checks
        if checks[0].status != "ok":
            return

    def run_checks() -> "Iterator[Check]":
        topics = [cli.topics(name) for name in cli.aggregate_names()]
        return cluster.check_cluster(
            cli.connection(start_broker=False),
            topics,
            settings.dedup_window,
            (role,) if role else cluster.DEFAULT_ROLES,
            process_topic_access(settings),
            settings.max_clock_skew,
            personal_aggregates(settings),
            is_embedded=settings.bootstrap_server is None,
        )

    yield from run_check("broker", run_checks)


def _has_broker(settings: "Settings") -> bool:
    """True if a broker is configured, or if the embedded broker runs. The embedded broker is not started."""
    from cqrs_cli.kafka.embedded.broker import broker_status

    return settings.bootstrap_server is not None or broker_status(settings.root) is not None


def check_stored_events(cli: Cli, settings: "Settings") -> "Iterator[Check]":
    """Check that the code reads the stored events, if a broker is available."""
    from cqrs_cli.doctor.check import run_check

    if not _has_broker(settings):
        return
    for name in cli.aggregate_names():
        yield from run_check("events", partial(_check_events_of, cli, name))


def _check_events_of(cli: Cli, name: str) -> "Iterator[Check]":
    """Check the events of one aggregate. Another check reports missing topics."""
    from cqrs_cli.doctor.events import check_events
    from cqrs_cli.errors import ConfigurationError

    aggregate = cli.aggregate(name)
    with suppress(ConfigurationError):
        yield from check_events(cli.connection(start_broker=False), aggregate, cli.topics(name))


def check_stored_keys(cli: Cli, settings: "Settings") -> "Iterator[Check]":
    """Check that the keyring has the KEKs that are in use, if a keyring is set and a broker is available."""
    from cqrs_cli.doctor.check import run_check

    if settings.keyring is not None and _has_broker(settings):
        for name in personal_aggregates(settings):
            yield from run_check("keys", partial(_check_keks_of, cli, name))


def _check_keks_of(cli: Cli, name: str) -> "Iterator[Check]":
    """Check the KEKs of one aggregate's data keys. Another check reports a keyring or a topic that cannot be read."""
    from cqrs_cli.doctor.keys import check_keks
    from cqrs_cli.errors import ConfigurationError

    with suppress(ConfigurationError):
        connection = cli.connection(start_broker=False)
        yield from check_keks(connection, cli.topics(name), connection.require_keyring(name))


def check_stored_checkpoints(
    cli: Cli, settings: "Settings", uri: str, can_read_events: bool
) -> "Iterator[Check]":
    """Check the checkpoint store and, if it and the broker can be used, the newest checkpoints of each aggregate.

    `can_read_events`: True if no earlier check found a problem that prevents reading events.
    """
    from cqrs_cli.doctor.check import run_check
    from cqrs_cli.doctor.checkpoints import check_checkpoint_store

    checks = list(run_check("checkpoints", lambda: check_checkpoint_store(uri)))
    yield from checks
    if checks[0].status == "ok" and can_read_events and _has_broker(settings):
        for name in cli.aggregate_names():
            yield from run_check("checkpoints", partial(_check_checkpoints_of, cli, settings, uri, name))


def _check_checkpoints_of(cli: Cli, settings: "Settings", uri: str, name: str) -> "Iterator[Check]":
    """Check the newest checkpoints of one aggregate. Another check reports errors of its topics."""
    from cqrs_cli.deciding.plan import shard_identity, shards_folder_of
    from cqrs_cli.doctor.checkpoints import check_latest_checkpoints
    from cqrs_cli.errors import ConfigurationError
    from cqrs_cli.kafka.admin.topics import Admin, check_topics
    from cqrs_cli.kafka.offsets import committed_offsets_now
    from cqrs_cli.kafka.partition_log import PartitionLog
    from cqrs_cli.settings.durations import milliseconds

    connection, topics, aggregate = cli.connection(start_broker=False), cli.topics(name), cli.aggregate(name)
    with suppress(ConfigurationError):
        with Admin(connection) as admin:
            aggregate_topics = check_topics(admin, topics)
        partitions, window = range(aggregate_topics.partitions), milliseconds(settings.dedup_window)
        decided_until = {
            partition: committed_offset.offset or 0
            for partition, committed_offset in committed_offsets_now(connection, topics, partitions).items()
        }
        identities = [
            shard_identity(aggregate_topics, partition, aggregate, window) for partition in partitions
        ]
        folder = shards_folder_of(settings.state_dir, topics).name

        def has_new_outcomes(partition: int, manifest: "Manifest") -> bool:
            log = PartitionLog(connection, topics, partition)
            start, end = log.bounds("outcomes")
            return log.first_record("outcomes", max(start, manifest.positions.outcomes), end) is not None

        yield from check_latest_checkpoints(
            name, uri, folder, settings.checkpoint_every, identities, decided_until, has_new_outcomes
        )
