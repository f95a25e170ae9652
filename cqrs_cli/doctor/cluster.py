"""Checks that both Kafka clients reach the cluster, topics are correct, no transaction hangs, and ACLs suffice."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

from cqrs_cli.core.deferral.deferrals import CLOCK_TOLERANCE
from cqrs_cli.doctor.check import Check, fail, ok, run_check, warn
from cqrs_cli.doctor.kafka_faults import (
    TRANSACTION_SETTINGS,
    check_internal_topics,
    check_release,
    check_topic_settings,
    check_transaction_settings,
)
from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.admin.clock import OwnClock, clock_message, local_clock
from cqrs_cli.kafka.admin.topics import Admin, find_with_extras
from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.acls import Role, required_acls
from cqrs_cli.kafka.topics.checks import config_errors, missing_topics_error
from cqrs_cli.kafka.topics.process_topics import ProcessTopicAccess
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.keyspace.key_space import poll_key_space
from cqrs_cli.settings.durations import milliseconds

#: The roles that are checked by default.
DEFAULT_ROLES: tuple[Role, ...] = ("send", "run")

#: Default tolerance, which the settings override: a clock difference up to this value is not reported.
DEFAULT_TOLERANCE = timedelta(milliseconds=CLOCK_TOLERANCE)

#: Suffix of commands topics, in which an open transaction hides commands from their owners.
_COMMANDS_SUFFIX = ".commands"


def check_embedded(root: Path) -> Iterator[Check]:
    """Check the project's own broker. It is not started."""
    from cqrs_cli.kafka.embedded import broker as embedded

    broker = embedded.broker_status(root)
    if broker is None:
        yield warn(
            "broker",
            "the embedded Kafka does not run: its topics were not checked",
            "start it: cqrs kafka start; other commands start it, too",
        )
    else:
        yield ok("embedded", f"Kafka {broker.version} at {broker.bootstrap_server}, process {broker.pid}")


def check_cluster(
    connection: Connection,
    aggregates: Sequence[Topics],
    window: timedelta,
    roles: Sequence[Role] = DEFAULT_ROLES,
    processes: Sequence[ProcessTopicAccess] = (),
    tolerance: timedelta = DEFAULT_TOLERANCE,
    personal: Collection[str] = (),
    is_embedded: bool = False,
) -> Iterator[Check]:
    """Check the cluster of `connection` and the topics of these aggregates, as far as the roles need them. If `run` is
    among the roles, the topics of these processes are checked, too. `personal`: the names of the aggregates with
    personal fields. `is_embedded`: the cluster is the project's own broker.
    """
    processes = processes if "run" in roles else ()
    with Admin(connection) as admin:
        broker_count = admin.broker_count()
        version = admin.broker_version()
        version_text = f"Kafka {'.'.join(map(str, version))} or newer at {connection.bootstrap_server}"
        yield ok("broker", f"{version_text}, {counted(broker_count, 'broker')}, cluster {admin.cluster_id()}")
        yield from check_release(version, broker_count, is_embedded)
        yield from run_check("data path", lambda: _check_data_path(connection))
        yield from run_check("clock", lambda: compare_clocks(admin, tolerance))
        topic_infos: dict[str, TopicInfo] = {}  # existing topics by name
        # A client that only sends may not see all topics.
        for topics in aggregates if set(roles) != {"send"} else ():
            plan = TopicPlan(dedup_window=window, personal=topics.aggregate in personal)
            yield from run_check(
                "topics", partial(_check_topics, admin, topics, plan, broker_count, topic_infos)
            )
        if processes:
            yield from run_check("processes", lambda: _check_processes(admin, processes, topic_infos))
        yield from check_topic_settings(topic_infos)
        if "run" in roles:
            yield from run_check("topics", lambda: check_internal_topics(admin, broker_count))
            yield from run_check("transactions", lambda: _check_transactions(admin, topic_infos))
        yield from run_check("acls", lambda: _check_acls(admin, aggregates, roles, processes, personal))


def _check_data_path(connection: Connection) -> Iterable[Check]:
    """Check that librdkafka reaches the cluster, too: it uses other names for the properties than the admin client."""
    from confluent_kafka import libversion

    from cqrs_cli.kafka.clients import consumer, fetch_metadata

    probe = consumer(connection)
    try:
        fetch_metadata(connection, probe)
    finally:
        probe.close()
    yield ok("data path", f"librdkafka {libversion()[0]} reaches the cluster")


def compare_clocks(admin: Admin, tolerance: timedelta, own_clock: OwnClock = local_clock) -> Iterator[Check]:
    """Compare this machine's clock, which its owners would use, with the broker's clock."""
    difference = admin.clock_difference(own_clock)
    if difference is None:
        yield ok("clock", "the broker does not report its time: this needs the ACL Describe on the cluster")
    elif abs(difference) > milliseconds(tolerance):
        yield warn(
            "clock", clock_message(difference), "synchronise the clock with chrony or systemd-timesyncd"
        )
    else:
        yield ok("clock", f"differs from the broker's clock by at least {abs(difference) / 1000:.1f} s")


def _check_topics(
    admin: Admin, topics: Topics, plan: TopicPlan, broker_count: int, topic_infos: dict[str, TopicInfo]
) -> Iterator[Check]:
    """Check one aggregate's topics; add existing topics to `topic_infos`."""
    existing_topics, extras = find_with_extras(admin, topics, plan.personal)
    topic_infos |= {topics.name(kind): info for kind, info in existing_topics.items()}
    if (keys := extras.get("keys")) is not None:
        topic_infos[topics.keys] = keys
    errors = config_errors(topics, existing_topics, plan, extras)
    if (error := missing_topics_error(topics, [*existing_topics, *extras], plan.kinds)) is not None:
        errors.insert(0, error)
    yield from (fail("topics", error) for error in errors)
    if errors:
        return
    if "lineage" in extras:
        yield from _check_repartitioning(admin.connection, topics, existing_topics["commands"].partitions)
    replica_count = min(info.replication for info in existing_topics.values())
    if replica_count < TopicPlan.replication(broker_count):
        yield warn(
            "topics",
            f"{topics.aggregate}: {replica_count} of 3 possible replicas: a lost broker loses data",
            "kafka-reassign-partitions.sh adds replicas; then set min.insync.replicas=2",
        )
    else:
        yield ok(
            "topics",
            f"{topics.aggregate}: {existing_topics['commands'].partitions} partitions, with correct settings",
        )


def _check_repartitioning(connection: Cluster, topics: Topics, partitions: int) -> Iterator[Check]:
    """Report a repartitioning in progress, and its next step. `partitions`: the commands topic's current count."""
    key_space = poll_key_space(connection, topics, partitions)
    count = key_space.counts[-1]
    if count > partitions:
        yield warn(
            "topics",
            f"{topics.aggregate} is being repartitioned to {count} partitions; its commands topic has {partitions}",
            f"complete it: cqrs repartition {topics.aggregate} --partitions {count}",
        )
    elif unfinished := key_space.unfinished_partitions(partitions):
        yield warn(
            "topics",
            f"{topics.aggregate} is being repartitioned to {count} partitions: {len(unfinished)} are not split or"
            " activated",
            "the next run splits: cqrs run",
        )


def _check_processes(
    admin: Admin, processes: Sequence[ProcessTopicAccess], topic_infos: dict[str, TopicInfo]
) -> Iterator[Check]:
    """Check the positions topic of each process manager; add existing topics to `topic_infos`."""
    existing_topics = admin.describe([process.topics.positions_topic for process in processes])
    topic_infos |= existing_topics
    for process in processes:
        info = existing_topics.get(process.topics.positions_topic)
        config_error = process.topics.config_error(info)
        if info is None:
            yield warn(
                "processes",
                f"{process.topics.process} has no topic: cqrs run leaves it out",
                "create it: cqrs init",
            )
        elif config_error is not None:
            yield fail("processes", config_error)
        else:
            yield ok(
                "processes", f"{process.topics.process}: subscribes to {', '.join(process.events_topics)}"
            )


def _check_transactions(admin: Admin, topic_infos: dict[str, TopicInfo]) -> Iterator[Check]:
    """Check the brokers' settings for transactions, and that no transaction blocks readers for too long."""
    partitions = [
        (name, partition)
        for name, info in topic_infos.items()
        if info.operations is None or "READ" in info.operations
        for partition in range(info.partitions)
    ]
    yield from check_transaction_settings(admin.broker_settings(TRANSACTION_SETTINGS))
    open_transactions = admin.all_open_transactions(partitions) if partitions else []
    now = local_clock()
    hanging_transactions = [transaction for transaction in open_transactions if transaction.hangs(now)]
    cluster = admin.connection
    yield from (
        fail("transactions", _blocked_error(transaction, cluster)) for transaction in hanging_transactions
    )
    transactions_hiding_commands = [
        transaction
        for transaction in open_transactions
        if transaction not in hanging_transactions
        and not transaction.is_young(now)
        and transaction.topic.endswith(_COMMANDS_SUFFIX)
    ]
    for transaction in transactions_hiding_commands:
        yield warn("transactions", transaction.hidden_records_message(), transaction.hint(cluster))
    if not hanging_transactions and not transactions_hiding_commands:
        yield ok("transactions", f"none hanging, {len(open_transactions)} open")


def _blocked_error(transaction: OpenTransaction, cluster: Cluster) -> UnavailableError:
    location = f"{transaction.topic} partition {transaction.partition}"
    return UnavailableError(
        f"{location} is blocked by {transaction}, which does not end by itself",
        transaction.abort_command(cluster),
    )


def _check_acls(
    admin: Admin,
    aggregates: Sequence[Topics],
    roles: Sequence[Role],
    processes: Sequence[ProcessTopicAccess],
    personal: Collection[str],
) -> Iterator[Check]:
    """Check that the cluster's authorizer, if there is one, allows the operations that the roles need."""
    missing_acls = {
        role: admin.missing_acls(
            acl for topics in aggregates for acl in required_acls(role, topics, topics.aggregate in personal)
        )
        for role in roles
    }
    if processes:
        missing_acls["run"] += admin.missing_acls(
            acl for process in processes for acl in process.required_acls()
        )
    for role, acls in missing_acls.items():
        yield from (fail("acls", acl.denied_error(role)) for acl in acls)
    if any(missing_acls.values()):
        return
    try:
        count = admin.acl_count()
    except ConfigurationError:
        yield ok(
            "acls", f"an authorizer allows the operations of {', '.join(roles)}; its ACLs may not be listed"
        )
        return
    if count is None:
        yield ok("acls", "the cluster has no authorizer: every client may do everything")
    else:
        yield ok("acls", f"{counted(count, 'ACL')}, which allow the operations of {', '.join(roles)}")
