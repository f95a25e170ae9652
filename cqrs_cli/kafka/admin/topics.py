"""Administration: queries about the cluster and its topics, and creation of the five topics of an aggregate."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.admin import acl_check, client, hanging, transactions
from cqrs_cli.kafka.admin.clock import OwnClock, clock_difference, local_clock
from cqrs_cli.kafka.admin.configs import broker_configs, topic_configs
from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.checks import Extras, aggregate_topics, config_errors, missing_topics_error
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import (
    KINDS,
    MAX_MESSAGE_BYTES,
    AggregateTopics,
    ExtraKind,
    Kind,
    TopicPlan,
    Topics,
    extra_configs,
)

#: Kafka's error codes.
_UNKNOWN_TOPIC, _TOPIC_NOT_ALLOWED = 3, 29

_T = TypeVar("_T")


class Admin:
    """An open admin connection; use as a context manager. If no broker answers, methods raise `UnavailableError` within
    10 s.
    """

    def __init__(self, connection: Cluster) -> None:
        self.connection = connection
        self._client = client.connect(connection)

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._client.close()

    def cluster_id(self) -> str:
        """Return the unique id of the cluster."""
        return str(self._call(self._client.describe_cluster)["cluster_id"])

    def broker_count(self) -> int:
        """Return the number of active brokers, without brokers that are starting or stopping."""
        brokers = self._call(self._client.describe_cluster)["brokers"]
        return sum(not broker.get("is_fenced") for broker in brokers)

    def broker_settings(self, names: Collection[str]) -> dict[int, dict[str, str]]:
        """Return node id → the settings `names`, for each active broker. The settings are empty if the user may not
        read them.
        """
        brokers = self._call(self._client.describe_cluster)["brokers"]
        nodes = [broker["broker_id"] for broker in brokers if not broker.get("is_fenced")]
        return {node: self._call(broker_configs, self._client, node, names) for node in nodes}

    def broker_version(self) -> tuple[int, ...]:
        """Return the Kafka release of the broker, as derived from its protocol versions, such as `(4, 3)`. The broker
        may be newer: kafka-python 3.0.12 knows no release after 4.3.
        """
        return tuple(self._client._manager.broker_version)

    def clock_difference(self, own_clock: OwnClock = local_clock) -> int | None:
        """Return the ms by which this machine's clock is ahead of the broker's, as `clock.clock_difference` does."""
        return self._call(clock_difference, self._client, own_clock)

    def describe(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Return name → description, for the topics that exist; raises `ConfigurationError` if an ACL is missing.

        One broker may answer for the topics and another broker for their settings, and the second broker may not know a
        new topic yet. So both requests are repeated until the answers contain the same topics.
        """
        deadline = time.monotonic() + client.REQUEST_TIMEOUT_MS / 1000
        while True:
            topics = self._describe_existing(names)
            configs = self._call(topic_configs, self._client, topics)
            if configs.keys() == topics.keys() or time.monotonic() > deadline:
                return {name: _topic_info(topics[name], settings) for name, settings in configs.items()}
            time.sleep(0.05)

    def _describe_existing(self, names: Collection[str]) -> dict[str, Mapping[str, Any]]:
        """Return name → kafka-python's description, for the topics that exist; raises `ConfigurationError` if an ACL is
        missing.
        """
        topics = {}
        for topic in self._call(self._client.describe_topics, list(names)):
            if topic["error_code"] == _TOPIC_NOT_ALLOWED:
                raise RequiredAcl("Describe", "topic", topic["name"]).denied_error()
            if topic["error_code"] not in (0, _UNKNOWN_TOPIC):
                raise CqrsError(
                    f"topic {topic['name']} cannot be described: error {topic['error_code']}",
                    "see cqrs doctor",
                )
            if topic["error_code"] == 0:
                topics[topic["name"]] = topic
        return topics

    def create(self, name: str, partitions: int, replication: int, configs: Mapping[str, str]) -> None:
        """Create a topic, as `create_all` does."""
        self.create_all({name: NewTopic(partitions, replication, configs)})

    def create_all(self, topics: Mapping[str, "NewTopic"]) -> None:
        """Create topics with one request, and wait for the leaders of all partitions. Existing topics do not change."""
        from kafka.errors import TopicAlreadyExistsError, for_code

        specifications = {
            name: {
                "num_partitions": topic.partitions,
                "replication_factor": topic.replication,
                "configs": dict(topic.configs),
            }
            for name, topic in topics.items()
        }
        with client.admin_errors(self.connection):
            for result in self._client.create_topics(specifications, raise_errors=False)["topics"]:
                error = for_code(result["error_code"])
                if result["error_code"] and error is not TopicAlreadyExistsError:
                    raise error(f"{result['name']}: {result.get('error_message') or ''}")
            self._client.wait_for_topics([*topics], timeout_ms=client.REQUEST_TIMEOUT_MS)

    def add_partitions(self, name: str, partitions: int) -> None:
        """Raise the partition count of a topic to `partitions`; do nothing if the topic has as many or more.

        A broker may report the old count for a moment afterwards.
        """
        from kafka.errors import InvalidPartitionsError

        with client.admin_errors(self.connection), suppress(InvalidPartitionsError):
            self._client.create_partitions({name: partitions})

    def leader_flags(self, name: str) -> list[bool]:
        """Return, for each partition of a topic in order, True if the answering broker knows its leader. Empty if that
        broker does not know the topic.
        """
        topics = self._describe_existing([name])
        if name not in topics:
            return []
        return [partition["leader_id"] >= 0 for partition in topics[name]["partitions"]]

    def all_open_transactions(self, partitions: Iterable[tuple[str, int]]) -> list[OpenTransaction]:
        """Return the open transactions that hold back read_committed readers of these (topic, partition) pairs."""
        return self._call(transactions.find_open_transactions, self._client, list(partitions))

    def fence_writer(self, transactional_id: str, timeout_ms: int) -> hanging.FencedProducer:
        """Fence the producer of a transactional id, in order to end its hanging transaction."""
        return self._call(hanging.fence, self._client, transactional_id, timeout_ms)

    def producer_id_of(self, transactional_id: str) -> int:
        """Return the id of the current producer of a transactional id."""
        return self._call(hanging.producer_id_of, self._client, transactional_id)

    def open_producers(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], dict[int, int]]:
        """Return the producers with an open transaction on each (topic, partition): producer id → first offset."""
        return self._call(hanging.open_producers, self._client, partitions)

    def end_hanging(
        self,
        producer: hanging.FencedProducer,
        partitions: Collection[tuple[str, int]],
        group: str,
        commit: bool,
    ) -> None:
        """Commit or abort the producer's hanging transactions on these (topic, partition) pairs and on the group's
        offsets.
        """
        self._call(hanging.end_hanging, self._client, producer, partitions, group, commit)

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Delete the records of each partition before an offset; raises `ConfigurationError` if an ACL is missing."""
        from kafka import TopicPartition

        first_offsets = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        with client.admin_errors(self.connection):
            self._client.delete_records(first_offsets)

    def missing_acls(self, required: Iterable[RequiredAcl]) -> list[RequiredAcl]:
        """Return the ACLs of `required` that the user lacks. This changes nothing."""
        return self._call(acl_check.missing_acls, self._client, required)

    def acl_count(self) -> int | None:
        """Return the number of ACLs; None without an authorizer. Raises `ConfigurationError` if the user may not list
        ACLs.
        """
        from kafka import admin, errors

        any_acl = admin.ACLFilter(
            None,
            None,
            admin.ACLOperation.ANY,
            admin.ACLPermissionType.ANY,
            admin.ResourcePatternFilter(admin.ResourceType.ANY, None, admin.ACLResourcePatternType.ANY),
        )
        with client.admin_errors(self.connection):
            try:
                acls, _ = self._client.describe_acls(any_acl)
            except errors.SecurityDisabledError:
                return None
        return len(acls)

    def _call(self, request: Callable[..., _T], *arguments: Any, **options: Any) -> _T:
        with client.admin_errors(self.connection):
            return request(*arguments, **options)


class TopicResult(NamedTuple):
    """The result of `ensure_topics` for one topic."""

    topic: str
    result: str  # `created` or `kept`; in a dry run also `missing`, or `unknown` if no broker answers
    partitions: int


def find_topics(admin: Admin, topics: Topics) -> dict[Kind, TopicInfo]:
    """Return kind → description, for the five topics of an aggregate, if they exist."""
    return find_with_extras(admin, topics)[0]


def find_with_extras(
    admin: Admin, topics: Topics, personal: bool = False
) -> tuple[dict[Kind, TopicInfo], dict[ExtraKind, TopicInfo]]:
    """Return the existing topics of an aggregate by kind, and its existing extra topics by kind.

    The keys topic is included only if `personal` is True (the aggregate has personal fields): other aggregates need no
    ACL for the keys topic.
    """
    names = {kind: topics.name(kind) for kind in KINDS}
    extra_names: dict[ExtraKind, str] = {"lineage": topics.lineage}
    if personal:
        extra_names["keys"] = topics.keys
    infos = admin.describe([*names.values(), *extra_names.values()])
    topic_infos = {kind: infos[name] for kind, name in names.items() if name in infos}
    return topic_infos, {extra: infos[name] for extra, name in extra_names.items() if name in infos}


class NewTopic(NamedTuple):
    """A topic to be created."""

    partitions: int
    replication: int
    configs: Mapping[str, str]


def ensure_topics(admin: Admin, topics: Topics, plan: TopicPlan, dry_run: bool = False) -> list[TopicResult]:
    """Create missing topics. If some topics exist, new topics get their partition count. Idempotent.

    Raises `ConfigurationError` if a topic has wrong settings: an existing topic before any change, a created topic
    afterwards.
    """
    infos, extras = find_with_extras(admin, topics, plan.personal)
    if errors := config_errors(topics, infos, plan, extras):
        raise errors[0]
    broker_count = admin.broker_count()
    existing_topic = next(iter(infos.values()), None)
    partitions = existing_topic.partitions if existing_topic else plan.partitions
    max_message_bytes = (
        infos["commands"].number("max.message.bytes", 0) if "commands" in infos else MAX_MESSAGE_BYTES
    )
    new_topics = {
        topics.name(kind): NewTopic(
            partitions, plan.replication(broker_count), plan.configs(kind, max_message_bytes, broker_count)
        )
        for kind in KINDS
        if kind not in infos
    }
    if new_topics and not dry_run:
        admin.create_all(new_topics)
    result = "missing" if dry_run else "created"
    results = [
        TopicResult(topics.name(kind), "kept" if kind in infos else result, partitions) for kind in KINDS
    ]
    if plan.personal:
        results.append(_ensure_keys(admin, topics, extras.get("keys"), partitions, dry_run))
    if any(topic_result.result == "created" for topic_result in results):
        # another program, or a policy of the broker, may have changed the settings of these topics
        infos, extras = _await_visible(admin, topics, plan)
        _require_valid(topics, infos, extras, plan)
    return results


def _ensure_keys(
    admin: Admin, topics: Topics, keys_topic: TopicInfo | None, partitions: int, dry_run: bool
) -> TopicResult:
    if keys_topic is not None:
        return TopicResult(topics.keys, "kept", keys_topic.partitions)
    if not dry_run:
        create_extra(admin, topics, "keys", partitions)
    return TopicResult(topics.keys, "missing" if dry_run else "created", partitions)


def create_extra(admin: Admin, topics: Topics, extra: ExtraKind, partitions: int = 1) -> None:
    """Create a topic that only some aggregates have."""
    broker_count = admin.broker_count()
    configs = extra_configs(extra, broker_count)
    admin.create(topics.name(extra), partitions, TopicPlan.replication(broker_count), configs)


def _await_visible(
    admin: Admin, topics: Topics, plan: TopicPlan
) -> tuple[dict[Kind, TopicInfo], dict[ExtraKind, TopicInfo]]:
    """Return the aggregate's topics, once the topics that were just created are visible: a broker may lag."""
    deadline = time.monotonic() + client.REQUEST_TIMEOUT_MS / 1000
    while True:
        infos, extras = find_with_extras(admin, topics, plan.personal)
        if {*infos, *extras} >= {*plan.kinds} or time.monotonic() > deadline:
            return infos, extras
        time.sleep(0.05)


def check_topics(admin: Admin, topics: Topics, plan: TopicPlan = TopicPlan()) -> AggregateTopics:  # noqa: B008  (frozen)
    """Return the aggregate's topics; raises `ConfigurationError` if a topic is missing or has wrong settings.

    Of the `plan`, only the dedup window and `personal` are used.
    """
    infos, extras = find_with_extras(admin, topics, plan.personal)
    _require_valid(topics, infos, extras, plan)
    return aggregate_topics(topics, admin.cluster_id(), infos, extras)


def _require_valid(topics: Topics, infos: Mapping[Kind, TopicInfo], extras: Extras, plan: TopicPlan) -> None:
    error = missing_topics_error(topics, [*infos, *extras], plan.kinds) or next(
        iter(config_errors(topics, infos, plan, extras)), None
    )
    if error is not None:
        raise error


def _topic_info(topic: Mapping[str, Any], configs: Mapping[str, str]) -> TopicInfo:
    replicas = [len(partition["replica_nodes"]) for partition in topic["partitions"]]
    authorized_operations = topic.get("authorized_operations")
    operations = None
    if isinstance(authorized_operations, (list, set, tuple)):
        operations = frozenset(map(str, authorized_operations))
    return TopicInfo(
        topic_id=str(topic["topic_id"]),
        partitions=len(replicas),
        replication=min(replicas, default=0),
        configs=configs,
        operations=operations,
    )
