"""Manifests for Strimzi's operators on Kubernetes: the topics that `init` creates, and users with their ACLs."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from cqrs_cli.kafka.topics.acls import RequiredAcl, Role, required_acls
from cqrs_cli.kafka.topics.process_topics import ProcessTopicAccess, public_configs
from cqrs_cli.kafka.topics.topics import KINDS, TopicPlan, Topics, extra_configs

#: The API version of the manifests. Strimzi accepts it since release 0.49; release 1.0 accepts no other version.
API_VERSION = "kafka.strimzi.io/v1"

#: The number of brokers for which the topics are configured.
BROKERS = 3

#: The roles that get a user. No user needs `init`, since the topic operator creates the topics.
ROLES: tuple[Role, ...] = ("run", "send", "read")

#: (names of an aggregate's topics, settings with which they are created).
PlannedTopics: TypeAlias = tuple[Topics, TopicPlan]

_TYPES = {"topic": "topic", "group": "group", "transactional-id": "transactionalId"}


def manifests(
    aggregates: Sequence[PlannedTopics], processes: Sequence[ProcessTopicAccess], cluster: str, prefix: str
) -> list[dict[str, Any]]:
    """Return a `KafkaTopic` for each topic, then a `KafkaUser` for each role. `cluster`: the name of the `Kafka`
    resource. `prefix`: the setting `topic_prefix`, with which the users' names begin.
    """
    return [
        *_topics(aggregates, processes, cluster),
        *(_user(role, aggregates, processes, cluster, prefix) for role in ROLES),
    ]


def _topics(
    aggregates: Iterable[PlannedTopics], processes: Iterable[ProcessTopicAccess], cluster: str
) -> Iterator[dict[str, Any]]:
    for topics, plan in aggregates:
        for kind in KINDS:
            configs = plan.configs(kind, brokers=BROKERS)
            yield _topic(topics.name(kind), plan.partitions, configs, cluster)
        if plan.personal:
            yield _topic(topics.keys, plan.partitions, extra_configs("keys", BROKERS), cluster)
    for process in processes:
        yield _topic(process.topics.positions_topic, 1, process.topics.configs(BROKERS), cluster)
        for topic in process.public_topics:
            yield _topic(topic, TopicPlan().partitions, public_configs(BROKERS), cluster)


def _topic(name: str, partitions: int, configs: dict[str, str], cluster: str) -> dict[str, Any]:
    spec = {
        "topicName": name,
        "partitions": partitions,
        "replicas": TopicPlan.replication(BROKERS),
        "config": configs,
    }
    return _resource("KafkaTopic", name, spec, cluster)


def _user(
    role: Role,
    aggregates: Sequence[PlannedTopics],
    processes: Sequence[ProcessTopicAccess],
    cluster: str,
    prefix: str,
) -> dict[str, Any]:
    acls = [acl for topics, plan in aggregates for acl in required_acls(role, topics, plan.personal)]
    if role == "run":
        acls += [acl for process in processes for acl in process.required_acls()]
    spec = {
        "authentication": {"type": "scram-sha-512"},
        "authorization": {"type": "simple", "acls": list(_acls(acls))},
    }
    return _resource("KafkaUser", f"{prefix}cqrs-{role}", spec, cluster)


def _acls(acls: Iterable[RequiredAcl]) -> Iterator[dict[str, Any]]:
    """Yield one entry of Strimzi's `acls` for each resource, with all operations on it."""
    operations: dict[tuple[str, str, bool], list[str]] = {}
    for acl in acls:
        resource_operations = operations.setdefault((acl.resource, acl.name, acl.prefixed), [])
        if acl.operation not in resource_operations:
            resource_operations.append(acl.operation)
    for (resource, name, prefixed), resource_operations in operations.items():
        pattern = "prefix" if prefixed else "literal"
        resource_spec = {"type": _TYPES[resource], "name": name, "patternType": pattern}
        yield {"resource": resource_spec, "operations": resource_operations}


def _resource(kind: str, name: str, spec: dict[str, Any], cluster: str) -> dict[str, Any]:
    """Return a Kubernetes resource. Its name may only have lower-case letters, digits, `-` and `.`, so the topic's real
    name is in the spec.
    """
    resource_name = re.sub(r"[^a-z0-9.-]", "-", name.lower()).strip("-.")
    labels = {"strimzi.io/cluster": cluster}
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": resource_name, "labels": labels},
        "spec": spec,
    }


def manifests_text(resources: Iterable[dict[str, Any]]) -> str:
    """Return the manifests as YAML documents."""
    return "".join("---\n" + "\n".join(_lines(resource)) + "\n" for resource in resources)


def _lines(value: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of a mapping in YAML's block style. Each member of a list is one line of JSON."""
    for key, member_value in value.items():
        if isinstance(member_value, dict):
            yield f"{indent}{key}:"
            yield from _lines(member_value, f"{indent}  ")
        elif isinstance(member_value, list):
            yield f"{indent}{key}:"
            yield from (f"{indent}  - {json.dumps(member)}" for member in member_value)
        else:
            yield f"{indent}{key}: {json.dumps(member_value)}"
