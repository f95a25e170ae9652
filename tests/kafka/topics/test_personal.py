"""The rules for topics of an aggregate with personal fields: keys are kept, unencrypted values are not."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cqrs_cli.kafka.topics.acls import Role, required_acls
from cqrs_cli.kafka.topics.checks import aggregate_topics, config_errors, missing_topics_error
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import (
    KINDS,
    UNENCRYPTED_KINDS,
    ExtraKind,
    Kind,
    TopicPlan,
    Topics,
    extra_configs,
)

TOPICS = Topics("customer", "p.")
PLAN = TopicPlan(personal=True)
KEYS = TopicInfo("id-keys", 4, 1, extra_configs("keys"))
FIVE_TOPICS: Mapping[Kind, TopicInfo] = {
    kind: TopicInfo(f"id-{kind}", 4, 1, PLAN.configs(kind)) for kind in KINDS
}


def with_config(info: TopicInfo, name: str, value: str) -> TopicInfo:
    return replace(info, configs={**info.configs, name: value})


def error_texts(
    topics: Mapping[Kind, TopicInfo] = FIVE_TOPICS, keys: TopicInfo = KEYS, plan: TopicPlan = PLAN
) -> list[str]:
    extras: dict[ExtraKind, TopicInfo] = {"keys": keys}
    return [str(error) for error in config_errors(TOPICS, topics, plan, extras)]


def test_planned_topics_are_valid() -> None:
    assert error_texts() == []
    assert missing_topics_error(TOPICS, [*FIVE_TOPICS, "keys"], PLAN.kinds) is None


def test_personal_fields_need_a_keys_topic() -> None:
    assert missing_topics_error(TOPICS, FIVE_TOPICS) is None
    assert str(missing_topics_error(TOPICS, FIVE_TOPICS, PLAN.kinds)).startswith(
        "topic p.customer.keys does not exist;"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "delete"),
        ("cleanup.policy", "compact,delete"),
        ("segment.ms", "3600001"),
        ("max.compaction.lag.ms", "3600001"),
        ("message.timestamp.after.max.ms", "3600000"),
        ("message.timestamp.before.max.ms", "3600000"),
    ],
)
def test_wrong_keys_topic_names_its_fix(name: str, value: str) -> None:
    (message,) = error_texts(keys=with_config(KEYS, name, value))
    assert message.startswith(f"topic p.customer.keys has {name}={value}, needs ")
    assert message.endswith(f"--topic p.customer.keys --add-config {name}={KEYS.configs[name]}")


def test_keys_may_be_compacted_sooner() -> None:
    assert (
        error_texts(
            keys=with_config(with_config(KEYS, "segment.ms", "1000"), "max.compaction.lag.ms", "1000")
        )
        == []
    )


def test_topic_of_broker_defaults_is_refused() -> None:
    """A broker compacts nothing by default, and keeps a segment open for a week."""
    assert len(error_texts(keys=TopicInfo("id", 4, 1, {}))) == 3


def test_replicas_of_keys_are_in_sync() -> None:
    (message,) = error_texts(keys=replace(KEYS, replication=3))
    assert message.startswith("topic p.customer.keys has min.insync.replicas=1, needs at least 2")
    assert error_texts(keys=TopicInfo("id-keys", 4, 3, extra_configs("keys", brokers=3))) == []


@pytest.mark.parametrize(
    ("key_partitions", "is_sound"), [(1, True), (2, True), (4, True), (3, False), (8, False)]
)
def test_key_partitions_divide_the_partitions(key_partitions: int, is_sound: bool) -> None:
    assert (error_texts(keys=replace(KEYS, partitions=key_partitions)) == []) is is_sound


@pytest.mark.parametrize("kind", UNENCRYPTED_KINDS)
def test_unencrypted_topics_need_limited_retention(kind: Kind) -> None:
    for name, value in (("retention.ms", "-1"), ("segment.ms", "86400001")):
        wrong_topics = {**FIVE_TOPICS, kind: with_config(FIVE_TOPICS[kind], name, value)}
        if kind == "commands" and name == "retention.ms":  # outcomes outlive them
            wrong_topics["outcomes"] = with_config(FIVE_TOPICS["outcomes"], name, value)
        (message,) = error_texts(wrong_topics)
        assert message.startswith(f"topic p.customer.{kind} has {name}={value}, needs ")
        assert message.endswith(f"--add-config {name}={PLAN.configs(kind)[name]}")
        assert error_texts(wrong_topics, plan=TopicPlan()) == []


def test_dead_letters_are_kept_like_commands() -> None:
    for kind in UNENCRYPTED_KINDS:
        assert PLAN.configs(kind)["retention.ms"] == TopicPlan().configs("commands")["retention.ms"]
    assert TopicPlan().configs("dead-letters")["retention.ms"] == "-1"
    assert PLAN.configs("events") == TopicPlan().configs("events")


@pytest.mark.parametrize("count", [4, 8, 32])
def test_keys_stay_when_partitions_grow(count: int) -> None:
    """A key that moves to a child partition still has its record in the same keys partition."""
    extended_topics = {kind: replace(info, partitions=count) for kind, info in FIVE_TOPICS.items()}
    aggregate = aggregate_topics(TOPICS, "cluster", extended_topics, {"keys": KEYS})
    assert (aggregate.keys_id, aggregate.keys_partition_count) == ("id-keys", 4)
    assert all(aggregate.keys_partition(number % count) == number % 4 for number in range(100))


@pytest.mark.parametrize("role", ["run", "read", "init", "send", "repartition"])
def test_no_role_may_delete_keys(role: Role) -> None:
    key_acls = {*required_acls(role, TOPICS, personal=True)} - {*required_acls(role, TOPICS)}
    assert {acl.name for acl in key_acls} <= {TOPICS.keys}
    assert {acl.operation for acl in key_acls}.isdisjoint({"Delete", "Alter", "AlterConfigs"})
    assert ("Write" in {acl.operation for acl in key_acls}) is (role == "run")
