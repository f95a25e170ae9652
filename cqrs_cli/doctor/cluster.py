"""Checks of the cluster: both clients reach it, topics are correct, no transaction hangs, and ACLs are sufficient."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

from cqrs_cli.core.deferral.deferrals import CLOCK_TOLERANCE
from cqrs_cli.doctor.check import Check, fail, ok, run_check, warn
from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.admin.clock import OwnClock, clocks_text, this_clock
from cqrs_cli.kafka.admin.topics import Admin, find_with_extras
from cqrs_cli.kafka.admin.transactions import OpenTransaction, now_ms
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.lineage_log import visible_lineage
from cqrs_cli.kafka.topics.acls import Role, required_acls
from cqrs_cli.kafka.topics.checks import missing_topics, mistakes
from cqrs_cli.kafka.topics.process_topics import ProcessUse
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.kafka.transactional import TRANSACTION_TIMEOUT, transaction_timeout_error
from cqrs_cli.settings.durations import milliseconds

#: The roles that are checked by default.
DEFAULT_ROLES: tuple[Role, ...] = ("send", "run")

#: The largest difference between two clocks that is not reported, unless the settings have another value.
TOLERANCE = timedelta(milliseconds=CLOCK_TOLERANCE)

#: Only clients write to these topics: an open transaction there is not from an owner.
_COMMANDS = ".commands"


def check_embedded(root: Path) -> Iterator[Check]:
    """Check the project's own broker. It is not started."""
    from cqrs_cli.kafka.embedded import broker as embedded

    broker = embedded.broker_status(root)
    if broker is None:
        yield warn(
            "broker",
            "the embedded Kafka does not run: its topics were not looked at",
            "other commands start it; so does cqrs kafka start",
        )
    else:
        yield ok("embedded", f"Kafka {broker.version} at {broker.bootstrap_server}, process {broker.pid}")


def check_cluster(
    connection: Connection,
    aggregates: Sequence[Topics],
    window: timedelta,
    roles: Sequence[Role] = DEFAULT_ROLES,
    processes: Sequence[ProcessUse] = (),
    tolerance: timedelta = TOLERANCE,
    personal: Collection[str] = (),
) -> Iterator[Check]:
    """Check the cluster of `connection` and the topics of these aggregates, as far as the roles need them. If `run` is
    among the roles, the topics of these processes are checked, too. `personal`: the names of the aggregates with
    personal fields.
    """
    processes = processes if "run" in roles else ()
    with Admin(connection) as admin:
        brokers = admin.broker_count()
        said = f"Kafka {admin.broker_version()} or newer at {connection.bootstrap_server}"
        yield ok("broker", f"{said}, {counted(brokers, 'broker')}, cluster {admin.cluster_id()}")
        yield from run_check("data path", lambda: _data_path(connection))
        yield from run_check("clock", lambda: compare_clocks(admin, tolerance))
        found: dict[str, TopicInfo] = {}
        for topics in (
            aggregates if set(roles) != {"send"} else ()
        ):  # a client that only sends may not see all of them
            plan = TopicPlan(dedup_window=window, personal=topics.aggregate in personal)
            yield from run_check("topics", partial(_topics, admin, topics, plan, brokers, found))
        if processes:
            yield from run_check("processes", lambda: _positions(admin, processes, found))
        if "run" in roles:
            yield from run_check("transactions", lambda: _transactions(admin, found))
        yield from run_check("acls", lambda: _acls(admin, aggregates, roles, processes, personal))


def _data_path(connection: Connection) -> Iterable[Check]:
    """Check that librdkafka reaches the cluster, too: it has its own names for the same properties."""
    from confluent_kafka import libversion

    from cqrs_cli.kafka.clients import consumer, fetch_metadata

    probe = consumer(connection)
    try:
        fetch_metadata(connection, probe)
    finally:
        probe.close()
    yield ok("data path", f"librdkafka {libversion()[0]} gets through")


def compare_clocks(admin: Admin, tolerance: timedelta, own: OwnClock = this_clock) -> Iterator[Check]:
    """Compare this machine's clock with the broker's clock: owners on this machine would use it."""
    ahead = admin.clock_difference(own)
    if ahead is None:
        yield ok("clock", "the broker does not tell its time: that takes Describe on the cluster")
    elif abs(ahead) > milliseconds(tolerance):
        yield warn("clock", clocks_text(ahead), "synchronise it, with chrony or systemd-timesyncd")
    else:
        yield ok("clock", f"differs from the broker's by {abs(ahead) / 1000:.1f} s at least")


def _topics(
    admin: Admin, topics: Topics, plan: TopicPlan, brokers: int, found: dict[str, TopicInfo]
) -> Iterator[Check]:
    """Check one aggregate's topics; add existing topics to `found`."""
    there, extras = find_with_extras(admin, topics, plan.personal)
    found |= {topics.name(kind): info for kind, info in there.items()}
    if (keys := extras.get("keys")) is not None:
        found[topics.keys] = keys
    wrong = mistakes(topics, there, plan, extras)
    if (error := missing_topics(topics, [*there, *extras], plan.kinds)) is not None:
        wrong.insert(0, error)
    yield from (fail("topics", error) for error in wrong)
    if wrong:
        return
    if "lineage" in extras:
        yield from _growth(admin.connection, topics, there["commands"].partitions)
    copies = min(info.replication for info in there.values())
    if copies < TopicPlan.replication(brokers):
        yield warn(
            "topics",
            f"{topics.aggregate}: {copies} of 3 possible replicas: a lost broker loses data",
            "kafka-reassign-partitions.sh adds replicas; then set min.insync.replicas=2",
        )
    else:
        yield ok("topics", f"{topics.aggregate}: {there['commands'].partitions} partitions, set up right")


def _growth(connection: Cluster, topics: Topics, there: int) -> Iterator[Check]:
    """Check whether a repartitioning is in progress, and which step it waits for."""
    lineage = visible_lineage(connection, topics, there)
    count = lineage.counts[-1]
    if count > there:
        yield warn(
            "topics",
            f"{topics.aggregate} grows to {count} partitions, its commands have {there}",
            f"complete it: cqrs repartition {topics.aggregate} --partitions {count}",
        )
    elif left := lineage.unfinished_partitions(there):
        yield warn(
            "topics",
            f"{topics.aggregate} grows to {count} partitions: {len(left)} have not split or begun",
            "the next run splits: cqrs run",
        )


def _positions(admin: Admin, processes: Sequence[ProcessUse], found: dict[str, TopicInfo]) -> Iterator[Check]:
    """Check the topic of each process's positions; add existing topics to `found`."""
    there = admin.describe([one.topics.positions for one in processes])
    found |= there
    for one in processes:
        info = there.get(one.topics.positions)
        mistake = one.topics.mistake(info)
        if info is None:
            yield warn(
                "processes",
                f"{one.topics.process} has no topic: cqrs run leaves it out",
                "create it: cqrs init",
            )
        elif mistake is not None:
            yield fail("processes", mistake)
        else:
            yield ok("processes", f"{one.topics.process}: hears {', '.join(one.sources)}")


def _transactions(admin: Admin, found: dict[str, TopicInfo]) -> Iterator[Check]:
    """Check that the brokers allow cqrs's transactions, and for transactions that block readers for too long."""
    places = [
        (name, partition)
        for name, info in found.items()
        if info.operations is None or "READ" in info.operations
        for partition in range(info.partitions)
    ]
    limit = admin.max_transaction_timeout()
    if limit is not None and limit < TRANSACTION_TIMEOUT * 1000:
        yield fail("transactions", transaction_timeout_error(TRANSACTION_TIMEOUT, limit))
    held = admin.all_open_transactions(places) if places else []
    now = now_ms()
    hanging = [transaction for transaction in held if transaction.hangs(now)]
    server = admin.connection.bootstrap_server
    yield from (fail("transactions", _blocked(transaction, server)) for transaction in hanging)
    hiding = [
        one for one in held if one not in hanging and not one.is_young(now) and one.topic.endswith(_COMMANDS)
    ]
    yield from (warn("transactions", one.hidden_records_message(), one.hint(server)) for one in hiding)
    if not hanging and not hiding:
        yield ok("transactions", f"none hanging, {len(held)} open")


def _blocked(transaction: OpenTransaction, server: str) -> UnavailableError:
    where = f"{transaction.topic} partition {transaction.partition}"
    return UnavailableError(
        f"{where} is blocked by {transaction}, which will not end by itself",
        transaction.abort_command(server),
    )


def _acls(
    admin: Admin,
    aggregates: Sequence[Topics],
    roles: Sequence[Role],
    processes: Sequence[ProcessUse],
    personal: Collection[str],
) -> Iterator[Check]:
    """Check that the cluster's authorizer, if there is one, allows the operations that the roles need."""
    lacking = {
        role: admin.missing_acls(
            need
            for topics in aggregates
            for need in required_acls(role, topics, topics.aggregate in personal)
        )
        for role in roles
    }
    if processes:
        lacking["run"] += admin.missing_acls(need for one in processes for need in one.required_acls())
    for role, refused in lacking.items():
        yield from (fail("acls", need.denied(role)) for need in refused)
    if any(lacking.values()):
        return
    try:
        count = admin.acl_count()
    except ConfigurationError:
        yield ok("acls", f"an authorizer allows what {', '.join(roles)} need; its list may not be seen")
        return
    if count is None:
        yield ok("acls", "no authorizer: every client may do everything")
    else:
        yield ok("acls", f"{count}, which allow what {', '.join(roles)} need")
