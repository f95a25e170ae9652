"""Asks the broker which ACLs the user of a client has. It changes nothing on the broker."""

import re
from collections.abc import Iterable
from typing import Any

from cqrs_cli.kafka.admin.client import send_request
from cqrs_cli.kafka.topics.acls import RequiredAcl

#: Kafka's error codes.
_UNKNOWN_TOPIC, _NOT_ALLOWED, _GROUP_NOT_ALLOWED, _TRANSACTIONAL_ID_NOT_ALLOWED = 3, 29, 30, 53


def missing_acls(client: Any, required: Iterable[RequiredAcl]) -> list[RequiredAcl]:
    """Return the ACLs of `required` that the user of kafka-python's admin `client` lacks.

    If the user may not describe a topic, all required ACLs of the topic count as missing.
    """
    acls = list(required)
    topic_names = sorted({acl.name for acl in acls if acl.resource == "topic"})
    operations_by_resource: dict[tuple[str, str], set[str] | None] = {
        ("topic", name): operations for name, operations in _topic_operations(client, topic_names).items()
    }
    for acl in acls:
        resource = acl.resource, acl.name
        if acl.resource == "group" and resource not in operations_by_resource:
            operations_by_resource[resource] = _group_operations(client, acl.name)
        elif acl.resource == "transactional-id" and resource not in operations_by_resource:
            operations_by_resource[resource] = _transactional_id_operations(client, acl.name)
    return [
        acl for acl in acls if not _is_authorized(client, operations_by_resource[acl.resource, acl.name], acl)
    ]


def _is_authorized(client: Any, operations: set[str] | None, acl: RequiredAcl) -> bool:
    if operations is None:  # unknown, or the topic does not exist: only Create can be checked
        return acl.operation != "Create" or _may_create(client, acl.name)
    # DescribeConfigs → DESCRIBE_CONFIGS
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", acl.operation).upper() in operations


def _topic_operations(client: Any, names: list[str]) -> dict[str, set[str] | None]:
    """Return topic → authorized operations, such as `{"READ"}`. The value is None if the topic does not exist, or if
    the broker does not report the operations.
    """
    operations_by_topic: dict[str, set[str] | None] = {}
    for topic in client.describe_topics(names) if names else ():
        operations = topic.get("authorized_operations")
        if topic["error_code"] == _NOT_ALLOWED:
            operations_by_topic[topic["name"]] = set()
        elif topic["error_code"] == _UNKNOWN_TOPIC or operations is None:
            operations_by_topic[topic["name"]] = None
        else:
            operations_by_topic[topic["name"]] = set(operations)
    return operations_by_topic


def _may_create(client: Any, name: str) -> bool:
    """Return True if the user may create this topic, by a request that only validates the creation."""
    from kafka import errors

    try:
        client.create_topics({name: {"num_partitions": 1, "replication_factor": 1}}, validate_only=True)
    except (errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError):
        return False
    except errors.BrokerResponseError:  # the topic exists by now, or a policy of the broker rejects it
        return True
    return True


def _group_operations(client: Any, name: str) -> set[str]:
    """Return the authorized operations on a group. A heartbeat of a member that cannot exist shows whether Read is
    allowed.

    The group need not exist. Any broker may answer, because it checks the ACL before it looks for the coordinator.
    """
    from kafka.protocol.admin import DescribeGroupsRequest
    from kafka.protocol.consumer import HeartbeatRequest

    heartbeat = HeartbeatRequest(group_id=name, generation_id=-1, member_id="cqrs-doctor")
    if send_request(client, heartbeat).error_code != _GROUP_NOT_ALLOWED:
        return {"READ", "DESCRIBE"}
    (description,) = send_request(client, DescribeGroupsRequest(groups=[name])).groups
    return set() if description.error_code == _GROUP_NOT_ALLOWED else {"DESCRIBE"}


def _transactional_id_operations(client: Any, prefix: str) -> set[str]:
    """Return the authorized operations on transactional ids with a prefix. A request to end the transaction of a
    producer that cannot exist shows whether Write is allowed.
    """
    from kafka.protocol.producer.transaction import EndTxnRequest

    request = EndTxnRequest(
        transactional_id=f"{prefix}0", producer_id=2**62, producer_epoch=0, committed=False
    )
    is_denied = send_request(client, request).error_code == _TRANSACTIONAL_ID_NOT_ALLOWED
    return set() if is_denied else {"WRITE", "DESCRIBE"}
