"""Administration: what the cluster is, which topics it has, and making the five of an aggregate."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.admin import authorized, client, hanging, transactions
from cqrs_cli.kafka.admin.clock import OwnClock, clock_difference, this_clock
from cqrs_cli.kafka.admin.configs import topic_configs
from cqrs_cli.kafka.admin.transactions import OpenTransaction
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.checks import Extras, aggregate_topics, missing_topics, mistakes
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

_UNKNOWN_TOPIC = 3
_TOPIC_NOT_ALLOWED = 29

_T = TypeVar("_T")


class Admin:
    """An open connection for administration; a context manager. Every method raises `UnavailableError` within 10 s."""

    def __init__(self, connection: Cluster) -> None:
        self.connection = connection
        self._client = client.connect(connection)

    def __enter__(self) -> "Admin":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections. Idempotent."""
        self._client.close()

    def cluster_id(self) -> str:
        """The id that tells this cluster from any other."""
        return str(self._ask(self._client.describe_cluster)["cluster_id"])

    def broker_count(self) -> int:
        """The number of brokers that serve, without those that start or stop."""
        brokers = self._ask(self._client.describe_cluster)["brokers"]
        return sum(not broker.get("is_fenced") for broker in brokers)

    def broker_version(self) -> str:
        """The Kafka release whose protocol the broker speaks, at least: `4.1`."""
        return ".".join(str(part) for part in self._client._manager.broker_version)

    def clock_difference(self, own: OwnClock = this_clock) -> int | None:
        """The time by which this machine's clock is ahead of the broker's (ms); None if the broker does not say."""
        return self._ask(clock_difference, self._client, own)

    def describe(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """The topics of these names that exist; raises `ConfigurationError` where one may not be looked at.

        Of several brokers one answers for the topics and one for their settings: of a topic just made the second may
        not know yet. Both are asked again until they agree.
        """
        deadline = time.monotonic() + client.REQUEST_TIMEOUT_MS / 1000
        while True:
            found = self._found(names)
            configs = self._ask(topic_configs, self._client, found)
            if configs.keys() == found.keys() or time.monotonic() > deadline:
                return {name: _info(found[name], held) for name, held in configs.items()}
            time.sleep(0.05)

    def _found(self, names: Collection[str]) -> dict[str, Mapping[str, Any]]:
        found = {}
        for topic in self._ask(self._client.describe_topics, list(names)):
            if topic["error_code"] == _TOPIC_NOT_ALLOWED:
                raise RequiredAcl("Describe", "topic", topic["name"]).denied()
            if topic["error_code"] not in (0, _UNKNOWN_TOPIC):
                raise CqrsError(
                    f"topic {topic['name']} cannot be described: error {topic['error_code']}",
                    "see cqrs doctor",
                )
            if topic["error_code"] == 0:
                found[topic["name"]] = topic
        return found

    def create(self, name: str, partitions: int, replication: int, configs: Mapping[str, str]) -> None:
        """Create a topic, as `create_all`."""
        self.create_all({name: NewTopic(partitions, replication, configs)})

    def create_all(self, topics: Mapping[str, "NewTopic"]) -> None:
        """Create topics with one request, and wait for the leaders of all partitions; existing topics stay."""
        from kafka.errors import TopicAlreadyExistsError, for_code

        wanted = {
            name: {
                "num_partitions": topic.partitions,
                "replication_factor": topic.replication,
                "configs": dict(topic.configs),
            }
            for name, topic in topics.items()
        }
        with client.admin_errors(self.connection):
            for result in self._client.create_topics(wanted, raise_errors=False)["topics"]:
                error = for_code(result["error_code"])
                if result["error_code"] and error is not TopicAlreadyExistsError:
                    raise error(f"{result['name']}: {result.get('error_message') or ''}")
            self._client.wait_for_topics([*topics], timeout_ms=client.REQUEST_TIMEOUT_MS)

    def grow(self, name: str, partitions: int) -> None:
        """Give a topic more partitions; one that has come to have them since is left alone.

        The controller knows of them first: a broker that is asked may show fewer for a moment.
        """
        from kafka.errors import InvalidPartitionsError

        with client.admin_errors(self.connection), suppress(InvalidPartitionsError):
            self._client.create_partitions({name: partitions})

    def leaders(self, name: str) -> list[bool]:
        """True for each partition of a topic that has a leader, as the broker that answers knows it."""
        found = self._found([name])
        return [one["leader_id"] >= 0 for one in found[name]["partitions"]] if name in found else []

    def all_open_transactions(self, partitions: Iterable[tuple[str, int]]) -> list[OpenTransaction]:
        """Transactions that hold back read_committed readers of these (topic, partition)s."""
        return self._ask(transactions.find, self._client, list(partitions))

    def fence_writer(self, transactional_id: str, timeout_ms: int) -> hanging.FencedProducer:
        """Fence the producer of a transactional id, to end what it left hanging."""
        return self._ask(hanging.fence, self._client, transactional_id, timeout_ms)

    def producer_of(self, transactional_id: str) -> int:
        """The id of the producer that has a transactional id now."""
        return self._ask(hanging.producer_of, self._client, transactional_id)

    def open_producers(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], dict[int, int]]:
        """The producers with an open transaction on each (topic, partition): where it begins, by their id."""
        return self._ask(hanging.open_producers, self._client, places)

    def end_hanging(
        self, producer: hanging.FencedProducer, places: Collection[tuple[str, int]], group: str, commit: bool
    ) -> None:
        """Commit or abort what the producer left hanging on the (topic, partition)s and of the group's offsets."""
        self._ask(hanging.end_hanging, self._client, producer, places, group, commit)

    def delete_before(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Delete the records of each partition before an offset; raises `ConfigurationError` if that is not allowed."""
        from kafka import TopicPartition

        wanted = {TopicPartition(topic, partition): offset for partition, offset in offsets.items()}
        with client.admin_errors(self.connection):
            self._client.delete_records(wanted)

    def missing_acls(self, needs: Iterable[RequiredAcl]) -> list[RequiredAcl]:
        """The `needs` that we are not authorized for; asking changes nothing."""
        return self._ask(authorized.missing_acls, self._client, needs)

    def acl_count(self) -> int | None:
        """The number of ACLs; None without an authorizer. Raises `ConfigurationError` if we may not ask."""
        from kafka import admin, errors

        everything = admin.ACLFilter(
            None,
            None,
            admin.ACLOperation.ANY,
            admin.ACLPermissionType.ANY,
            admin.ResourcePatternFilter(admin.ResourceType.ANY, None, admin.ACLResourcePatternType.ANY),
        )
        with client.admin_errors(self.connection):
            try:
                found, _ = self._client.describe_acls(everything)
            except errors.SecurityDisabledError:
                return None
        return len(found)

    def _ask(self, question: Callable[..., _T], *about: Any, **how: Any) -> _T:
        with client.admin_errors(self.connection):
            return question(*about, **how)


class Made(NamedTuple):
    """The result for one topic: `created` or `kept`; in a dry run `missing`, or `unknown` where no broker runs."""

    topic: str
    result: str
    partitions: int


def find_topics(admin: Admin, topics: Topics) -> dict[Kind, TopicInfo]:
    """Those of the five topics that exist."""
    return find_with_extras(admin, topics)[0]


def find_with_extras(
    admin: Admin, topics: Topics, personal: bool = False
) -> tuple[dict[Kind, TopicInfo], dict[ExtraKind, TopicInfo]]:
    """Those of the five topics that exist, and the extra ones.

    `personal`: the aggregate has personal fields. Else the keys are not looked for: who reads may need the right to.
    """
    names = {kind: topics.name(kind) for kind in KINDS}
    extras: dict[ExtraKind, str] = {"lineage": topics.lineage, **({"keys": topics.keys} if personal else {})}
    found = admin.describe([*names.values(), *extras.values()])
    there = {kind: found[name] for kind, name in names.items() if name in found}
    return there, {extra: found[name] for extra, name in extras.items() if name in found}


class NewTopic(NamedTuple):
    """A topic to be created."""

    partitions: int
    replication: int
    configs: Mapping[str, str]


def ensure_topics(admin: Admin, topics: Topics, plan: TopicPlan, dry_run: bool = False) -> list[Made]:
    """Make what is missing, like what exists; idempotent. Raises `ConfigurationError` before anything is made."""
    found, extras = find_with_extras(admin, topics, plan.personal)
    if wrong := mistakes(topics, found, plan, extras):
        raise wrong[0]
    brokers = admin.broker_count()
    first = next(iter(found.values()), None)
    partitions = first.partitions if first else plan.partitions
    largest = found["commands"].number("max.message.bytes", 0) if "commands" in found else MAX_MESSAGE_BYTES
    missing = {
        topics.name(kind): NewTopic(
            partitions, plan.replication(brokers), plan.configs(kind, largest, brokers)
        )
        for kind in KINDS
        if kind not in found
    }
    if missing and not dry_run:
        admin.create_all(missing)
    result = "missing" if dry_run else "created"
    made = [Made(topics.name(kind), "kept" if kind in found else result, partitions) for kind in KINDS]
    if plan.personal:
        made.append(_ensure_keys(admin, topics, extras.get("keys"), partitions, dry_run))
    if any(one.result == "created" for one in made):
        # another program, or a policy of the broker's, may have made them differently
        _refuse_unsound(topics, *_once_known(admin, topics, plan), plan)
    return made


def _ensure_keys(
    admin: Admin, topics: Topics, found: TopicInfo | None, partitions: int, dry_run: bool
) -> Made:
    if found is not None:
        return Made(topics.keys, "kept", found.partitions)
    if not dry_run:
        make_extra(admin, topics, "keys", partitions)
    return Made(topics.keys, "missing" if dry_run else "created", partitions)


def make_extra(admin: Admin, topics: Topics, extra: ExtraKind, partitions: int = 1) -> None:
    """Make a topic that only some aggregates have."""
    brokers = admin.broker_count()
    configs = extra_configs(extra, brokers)
    admin.create(topics.name(extra), partitions, TopicPlan.replication(brokers), configs)


def _once_known(
    admin: Admin, topics: Topics, plan: TopicPlan
) -> tuple[dict[Kind, TopicInfo], dict[ExtraKind, TopicInfo]]:
    """The topics just made; asks until all are there, since one broker of several may lag behind."""
    deadline = time.monotonic() + client.REQUEST_TIMEOUT_MS / 1000
    while True:
        found, extras = find_with_extras(admin, topics, plan.personal)
        if {*found, *extras} >= {*plan.kinds} or time.monotonic() > deadline:
            return found, extras
        time.sleep(0.05)


def check_topics(admin: Admin, topics: Topics, plan: TopicPlan = TopicPlan()) -> AggregateTopics:  # noqa: B008  (frozen)
    """The aggregate's topics, all there and set up right; raises `ConfigurationError` saying what is not.

    Of `plan` only the dedup window counts, and whether the aggregate has personal fields.
    """
    found, extras = find_with_extras(admin, topics, plan.personal)
    _refuse_unsound(topics, found, extras, plan)
    return aggregate_topics(topics, admin.cluster_id(), found, extras)


def _refuse_unsound(topics: Topics, found: Mapping[Kind, TopicInfo], extras: Extras, plan: TopicPlan) -> None:
    error = missing_topics(topics, [*found, *extras], plan.kinds) or next(
        iter(mistakes(topics, found, plan, extras)), None
    )
    if error is not None:
        raise error


def _info(topic: Mapping[str, Any], configs: Mapping[str, str]) -> TopicInfo:
    replicas = [len(partition["replica_nodes"]) for partition in topic["partitions"]]
    authorized_operations = topic.get("authorized_operations")
    return TopicInfo(
        topic_id=str(topic["topic_id"]),
        partitions=len(replicas),
        replication=min(replicas, default=0),
        configs=configs,
        operations=frozenset(map(str, authorized_operations))
        if isinstance(authorized_operations, (list, set, tuple))
        else None,
    )
