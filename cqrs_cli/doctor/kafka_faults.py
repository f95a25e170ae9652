"""Checks for known faults of Kafka: in its releases, and in settings of brokers and topics that allow the faults.

docs/guarantees.md#known-faults-of-kafka describes the faults.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from cqrs_cli.doctor.check import Check, fail, warn
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import TopicPlan
from cqrs_cli.kafka.transactional import TRANSACTION_TIMEOUT, transaction_timeout_error

#: The oldest release on which cqrs is tested.
_OLDEST_RELEASE = (4, 1)

#: The first release with the fault KAFKA-20734, which releases up to 4.4 have.
_FIRST_WITH_LOST_MARKERS = (4, 2)

_MAX_TIMEOUT, _VERIFICATION = "transaction.max.timeout.ms", "transaction.partition.verification.enable"

#: The settings of brokers that `check_transaction_settings` checks.
TRANSACTION_SETTINGS = (_MAX_TIMEOUT, _VERIFICATION)

#: Kafka's own topics, which hold the fences, the open transactions and the positions of all owners.
_INTERNAL_TOPICS = ("__transaction_state", "__consumer_offsets")


class RiskySetting(NamedTuple):
    """A value of a topic's setting that allows a fault, such as "true" for `remote.storage.enable`."""

    name: str
    value: str
    problem: str
    hint: str


_RISKY_SETTINGS = (
    RiskySetting(
        "unclean.leader.election.enable",
        "true",
        "a replica that lags may become leader, and acknowledged records are lost",
        "set unclean.leader.election.enable=false on the topics and brokers: kafka-configs.sh",
    ),
    RiskySetting(
        "remote.storage.enable",
        "true",
        "cqrs is not tested with tiered storage, and a replay reads from the remote store",
        "try cqrs verify and cqrs replay; remote.log.copy.disable=true ends the upload of new segments",
    ),
)


def check_release(version: tuple[int, ...], broker_count: int, is_embedded: bool) -> Iterator[Check]:
    """Report a release that is too old, or that may lose a part of a transaction if the only broker crashes.

    `version`: the newest release whose protocol the broker is known to support, such as `(4, 3)`.
    """
    if version < _OLDEST_RELEASE:
        yield warn(
            "broker",
            f"Kafka {'.'.join(map(str, version))} is older than Kafka 4.1, the oldest release with which cqrs is"
            " tested",
            "upgrade the brokers: Kafka 4.4 is recommended",
        )
    if broker_count == 1 and not is_embedded and version >= _FIRST_WITH_LOST_MARKERS:
        yield warn(
            "broker",
            "a crash of the only broker may lose a part of a committed transaction (KAFKA-20734, Kafka 4.2 to 4.4)",
            "use three brokers with replication 3; after a crash of the broker: cqrs verify",
        )


def check_transaction_settings(settings: Mapping[int, Mapping[str, str]]) -> Iterator[Check]:
    """Check what `Admin.broker_settings` returned for `TRANSACTION_SETTINGS`."""
    timeouts = [int(values[_MAX_TIMEOUT]) for values in settings.values() if _MAX_TIMEOUT in values]
    if timeouts and min(timeouts) < TRANSACTION_TIMEOUT * 1000:
        yield fail("transactions", transaction_timeout_error(TRANSACTION_TIMEOUT, min(timeouts)))
    unverified_brokers = [
        str(node) for node, values in settings.items() if values.get(_VERIFICATION) == "false"
    ]
    if unverified_brokers:
        yield warn(
            "transactions",
            f"broker {', '.join(unverified_brokers)} does not verify transactions ({_VERIFICATION}=false): a delayed"
            " record may leave a transaction open for ever",
            "set it: kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type brokers --entity-name"
            f" {unverified_brokers[0]} --add-config {_VERIFICATION}=true",
        )


def check_topic_settings(topic_infos: Mapping[str, TopicInfo]) -> Iterator[Check]:
    """Report settings of topics that allow a fault."""
    for setting in _RISKY_SETTINGS:
        names = [
            name for name, info in topic_infos.items() if info.configs.get(setting.name) == setting.value
        ]
        if names:
            detail = f"{setting.name}={setting.value} for {', '.join(names)}: {setting.problem}"
            yield warn("topics", detail, setting.hint)


def check_internal_topics(admin: Admin, broker_count: int) -> Iterator[Check]:
    """Check Kafka's own topics, if they can be described: the user may lack the ACL."""
    with suppress(CqrsError):
        infos = admin.describe(_INTERNAL_TOPICS)
        yield from check_topic_settings(infos)
        yield from check_internal_replicas(infos.items(), broker_count)


def check_internal_replicas(topics: Iterable[tuple[str, TopicInfo]], broker_count: int) -> Iterator[Check]:
    """Report an internal topic of Kafka that loses fences, transactions or positions if one broker is lost."""
    possible_replicas = TopicPlan.replication(broker_count)
    for name, info in topics:
        if info.replication < possible_replicas:
            yield warn(
                "topics",
                f"{name} has {info.replication} of {possible_replicas} possible replicas: a lost broker loses fences"
                " and positions",
                f"add replicas to {name}: kafka-reassign-partitions.sh",
            )
        elif possible_replicas >= 3 and info.number("min.insync.replicas", 1) < 2:
            yield warn(
                "topics",
                f"{name} has min.insync.replicas=1: acknowledged fences and positions may be lost with one broker",
                "set it: kafka-configs.sh --bootstrap-server HOST:PORT --alter"
                f" --topic {name} --add-config min.insync.replicas=2",
            )
