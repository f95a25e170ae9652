"""The doctor's checks for known faults of Kafka."""

from datetime import timedelta
from pathlib import Path

import pytest

from cqrs_cli.doctor import cluster
from cqrs_cli.doctor.check import Check
from cqrs_cli.doctor.kafka_faults import check_internal_replicas, check_release, check_topic_settings
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from tests.support.hanging_transactions import unverifying_broker
from tests.support.waiting import eventually


def topic(replication: int = 1, **configs: str) -> TopicInfo:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    return TopicInfo("id", 4, replication, settings)


def details(checks: list[Check]) -> list[str]:
    assert all(check.status == "warn" and check.hint for check in checks)
    return [check.detail for check in checks]


@pytest.mark.parametrize("version", [(3, 5), (4, 0)])
def test_old_release_is_a_warning(version: tuple[int, ...]) -> None:
    (detail,) = details(list(check_release(version, 3, is_embedded=False)))
    assert detail.endswith("is older than Kafka 4.1, the oldest release with which cqrs is tested")


@pytest.mark.parametrize(
    ("version", "brokers", "is_embedded"), [((4, 1), 1, False), ((4, 3), 3, False), ((4, 3), 1, True)]
)
def test_other_releases_are_fine(version: tuple[int, ...], brokers: int, is_embedded: bool) -> None:
    assert not list(check_release(version, brokers, is_embedded))


def test_single_broker_may_lose_transactions() -> None:
    (detail,) = details(list(check_release((4, 3), 1, is_embedded=False)))
    assert "KAFKA-20734" in detail


def test_risky_topic_settings_are_warnings() -> None:
    infos = {"a.events": topic(remote_storage_enable="true", unclean_leader_election_enable="true")}
    unclean, tiered = details(list(check_topic_settings({**infos, "a.outcomes": topic()})))
    assert unclean.startswith("unclean.leader.election.enable=true for a.events: a replica that lags")
    assert tiered.startswith("remote.storage.enable=true for a.events: cqrs is not tested")


def test_internal_topics_need_replicas() -> None:
    topics = [
        ("__transaction_state", topic(1, min_insync_replicas="1")),
        ("__consumer_offsets", topic(3, min_insync_replicas="1")),
    ]
    assert not list(check_internal_replicas(topics, broker_count=1))
    few, unsafe = details(list(check_internal_replicas(topics, broker_count=3)))
    assert few.startswith("__transaction_state has 1 of 3 possible replicas")
    assert unsafe.startswith("__consumer_offsets has min.insync.replicas=1")


@pytest.mark.kafka
def test_unverified_transactions_are_a_warning(connection: Connection, tmp_path: Path) -> None:
    def transaction_checks(server: Connection) -> list[str]:
        checks = cluster.check_cluster(server, [], timedelta(days=1), ("run",))
        return [check.detail for check in checks if (check.name, check.status) == ("transactions", "warn")]

    assert transaction_checks(connection) == []
    with unverifying_broker(tmp_path) as unverifying:
        # The broker applies a changed setting in the background.
        (detail,) = eventually(lambda: transaction_checks(unverifying))
    assert detail.startswith("broker 1 does not verify transactions")
