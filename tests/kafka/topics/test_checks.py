"""The rules for the topics of an aggregate, without a broker."""

from dataclasses import replace
from datetime import timedelta

import pytest

from cqrs_cli.kafka.topics.checks import Extras, aggregate_topics, config_errors, missing_topics_error
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import (
    KINDS,
    LINEAGE_CONFIGS,
    ExtraKind,
    Kind,
    TopicPlan,
    Topics,
    extra_configs,
)

TOPICS = Topics("bank", "p.")
DAY = 86_400_000


def valid_topics(plan: TopicPlan = TopicPlan()) -> dict[Kind, TopicInfo]:  # noqa: B008  (frozen)
    return {kind: TopicInfo(f"id-{kind}", 4, 1, plan.configs(kind)) for kind in KINDS}


def topics_with_config(kind: Kind, **configs: str) -> dict[Kind, TopicInfo]:
    topics = valid_topics()
    changes = {name.replace("_", "."): value for name, value in configs.items()}
    return {**topics, kind: replace(topics[kind], configs={**topics[kind].configs, **changes})}


def error_messages(topics: dict[Kind, TopicInfo], plan: TopicPlan = TopicPlan()) -> list[str]:  # noqa: B008  (frozen)
    return [error.message for error in config_errors(TOPICS, topics, plan)]


@pytest.mark.parametrize("plan", [TopicPlan(), TopicPlan(outcomes_retention=timedelta(days=9))])
def test_planned_topics_are_valid(plan: TopicPlan) -> None:
    assert error_messages(valid_topics(plan), plan) == []


def test_three_brokers_get_three_replicas() -> None:
    assert [TopicPlan.replication(brokers) for brokers in (1, 2, 3, 5)] == [1, 1, 3, 3]
    assert TopicPlan().configs("events", brokers=3)["min.insync.replicas"] == "2"
    assert TopicPlan().configs("events", brokers=2)["min.insync.replicas"] == "1"


@pytest.mark.parametrize("kind", KINDS)
def test_three_replicas_need_two_in_sync(kind: Kind) -> None:
    tripled = {topic_kind: replace(info, replication=3) for topic_kind, info in valid_topics().items()}
    with_two_in_sync = {
        topic_kind: replace(info, configs={**info.configs, "min.insync.replicas": "2"})
        for topic_kind, info in tripled.items()
    }
    assert error_messages(with_two_in_sync) == []
    (message,) = error_messages({**with_two_in_sync, kind: tripled[kind]})
    assert message.startswith(f"topic p.bank.{kind} has min.insync.replicas=1, needs at least 2")


LINEAGE: Extras = {"lineage": TopicInfo("id-lineage", 1, 1, extra_configs("lineage"))}


def repartitioned_topics(**counts: int) -> dict[Kind, TopicInfo]:
    return {kind: replace(info, partitions=counts.get(kind, 8)) for kind, info in valid_topics().items()}


@pytest.mark.parametrize("count", [4, 8])
def test_commands_topic_is_extended_last(count: int) -> None:
    """Until the commands topic is extended, the aggregate has its old partition count."""
    topics = repartitioned_topics(commands=count)
    assert config_errors(TOPICS, topics, TopicPlan(), LINEAGE) == []
    aggregate = aggregate_topics(TOPICS, "cluster", topics, LINEAGE)
    assert (aggregate.partitions, aggregate.lineage_id, aggregate.keys_id) == (count, "id-lineage", None)
    assert len(config_errors(TOPICS, repartitioned_topics(commands=4), TopicPlan())) == 1


def test_commands_topic_may_not_have_more_partitions() -> None:
    (error,) = config_errors(TOPICS, repartitioned_topics(deferred=4), TopicPlan(), LINEAGE)
    assert error.message.endswith("p.bank.commands 8, but p.bank.deferred 4")
    assert error.hint.endswith("cqrs repartition bank --partitions 8")


def test_lineage_needs_unlimited_retention() -> None:
    wrong = replace(LINEAGE["lineage"], configs={**LINEAGE_CONFIGS, "retention.ms": "1000"})
    (error,) = config_errors(TOPICS, repartitioned_topics(), TopicPlan(), {"lineage": wrong})
    assert error.message.startswith("topic p.bank.lineage has retention.ms=1000, needs -1")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "deferred"])
@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_no_topic_may_be_compacted(kind: Kind, policy: str) -> None:
    (message,) = error_messages(topics_with_config(kind, cleanup_policy=policy))
    assert message.startswith(f"topic p.bank.{kind} has cleanup.policy={policy}, needs delete")


def test_deferred_commands_must_be_compacted() -> None:
    (message,) = error_messages(topics_with_config("deferred", cleanup_policy="delete"))
    assert message.startswith("topic p.bank.deferred has cleanup.policy=delete, needs compact")
    (message,) = error_messages(topics_with_config("deferred", delete_retention_ms="1000"))
    assert message.startswith("topic p.bank.deferred has delete.retention.ms=1000, needs at least 86400000")


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("commands", "message.timestamp.type", "CreateTime"),
        ("events", "message.timestamp.type", "LogAppendTime"),
        ("outcomes", "message.timestamp.type", "LogAppendTime"),
        ("events", "message.timestamp.after.max.ms", "3600000"),
        ("outcomes", "message.timestamp.after.max.ms", "3600000"),
        ("dead-letters", "message.timestamp.after.max.ms", "3600000"),
        ("events", "message.timestamp.before.max.ms", "3600000"),
        ("events", "retention.ms", str(3650 * DAY)),
        ("events", "retention.bytes", "1000000"),
        ("outcomes", "retention.bytes", "1000000"),
        ("outcomes", "retention.ms", str(9 * DAY - 1)),
        ("outcomes", "max.message.bytes", "1048588"),
        ("dead-letters", "max.message.bytes", "1048588"),
    ],
)
def test_wrong_configuration_names_its_fix(kind: Kind, name: str, value: str) -> None:
    (error,) = config_errors(TOPICS, topics_with_config(kind, **{name.replace(".", "_"): value}), TopicPlan())
    assert error.message.startswith(f"topic p.bank.{kind} has {name}={value}, needs ")
    assert error.hint.startswith(
        f"set it: kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic p.bank.{kind} --add-config {name}="
    )


def test_commands_may_have_any_timestamp_limit() -> None:
    """The broker itself stamps commands."""
    assert error_messages(topics_with_config("commands", message_timestamp_after_max_ms="3600000")) == []


def test_commands_topic_may_be_limited_in_size() -> None:
    assert error_messages(topics_with_config("commands", retention_bytes="1000000")) == []


def test_outcomes_outlive_commands_and_two_windows() -> None:
    assert error_messages(topics_with_config("outcomes", retention_ms=str(9 * DAY))) == []
    assert (
        len(
            error_messages(
                topics_with_config("outcomes", retention_ms=str(9 * DAY)),
                TopicPlan(dedup_window=timedelta(hours=25)),
            )
        )
        == 1
    )


def test_unlimited_commands_need_unlimited_outcomes() -> None:
    topics = topics_with_config("outcomes", retention_ms=str(9 * DAY))
    unlimited_configs = {**topics["commands"].configs, "retention.ms": "-1"}
    (message,) = error_messages(
        {**topics, "commands": replace(topics["commands"], configs=unlimited_configs)}
    )
    assert "needs -1" in message


def test_larger_commands_need_larger_outcomes() -> None:
    assert len(error_messages(topics_with_config("commands", max_message_bytes="2000000"))) == 3


def test_partition_counts_must_agree() -> None:
    topics = valid_topics()
    (message,) = error_messages({**topics, "events": replace(topics["events"], partitions=8)})
    assert "p.bank.commands 4, p.bank.events 8, p.bank.outcomes 4" in message


def test_partition_count_is_checked_when_required() -> None:
    assert error_messages(valid_topics(), TopicPlan(partitions=8)) == []
    assert error_messages({}, TopicPlan(partitions=8, is_partition_count_required=True)) == []
    for topics, extras in ((valid_topics(), {}), (repartitioned_topics(), LINEAGE)):
        (error,) = config_errors(
            TOPICS, topics, TopicPlan(partitions=24, is_partition_count_required=True), extras
        )
        assert error.hint == "raise the count: cqrs repartition bank --partitions 24"
    (error,) = config_errors(
        TOPICS, valid_topics(), TopicPlan(partitions=6, is_partition_count_required=True)
    )
    assert error.hint.endswith("multiple: cqrs repartition bank --partitions 8")


def test_missing_topic_is_named() -> None:
    topics = valid_topics()
    assert missing_topics_error(TOPICS, topics) is None
    del topics["events"]
    error = missing_topics_error(TOPICS, topics)
    assert str(error) == "topic p.bank.events does not exist; create what is missing: cqrs init bank"


def test_valid_topics_have_ids_and_sizes() -> None:
    aggregate = aggregate_topics(TOPICS, "cluster", valid_topics())
    assert (aggregate.cluster_id, aggregate.partitions, aggregate.ids["dead-letters"]) == (
        "cluster",
        4,
        "id-dead-letters",
    )
    assert aggregate.max_bytes == {
        "commands": 1_048_588,
        "events": 1_048_588,
        "outcomes": 1_114_124,
        "dead-letters": 1_114_124,
        "deferred": 1_114_124,
    }


@pytest.mark.parametrize("kind", ["events", "deferred"])
def test_diskless_topics_are_refused(kind: Kind) -> None:
    (error,) = config_errors(TOPICS, topics_with_config(kind, diskless_enable="true"), TopicPlan())
    assert error.message.startswith(f"topic p.bank.{kind} is diskless (diskless.enable=true)")
    assert "log.diskless.enable=false" in error.hint
    assert error_messages(topics_with_config(kind, diskless_enable="false")) == []


@pytest.mark.parametrize("extra", ["lineage", "keys"])
def test_diskless_extra_topics_are_refused(extra: ExtraKind) -> None:
    info = TopicInfo("id", 1, 1, {**extra_configs(extra), "diskless.enable": "true"})
    (error,) = config_errors(TOPICS, valid_topics(), TopicPlan(), {extra: info})
    assert error.message.startswith(f"topic {TOPICS.name(extra)} is diskless")


def test_diskless_positions_are_refused() -> None:
    topics = ProcessTopics("checkout")
    info = TopicInfo("id", 1, 1, {**topics.configs(1), "diskless.enable": "true"})
    error = topics.config_error(info)
    assert error is not None and error.message.startswith("topic process.checkout.positions is diskless")
