"""Asks the broker which ACLs a client's user has, without changing anything."""

import re
from collections.abc import Iterable
from typing import Any

from cqrs_cli.kafka.admin.client import answer
from cqrs_cli.kafka.topics.acls import RequiredAcl

_UNKNOWN_TOPIC, _NOT_ALLOWED, _GROUP_NOT_ALLOWED, _ID_NOT_ALLOWED = 3, 29, 30, 53


def missing_acls(client: Any, wanted: Iterable[RequiredAcl]) -> list[RequiredAcl]:
    """Return the ACLs of `wanted` that the user of kafka-python's admin `client` lacks.

    If the user may not describe a topic, nothing is known about it, and all its wanted ACLs count as missing.
    """
    needs = list(wanted)
    held: dict[tuple[str, str], set[str] | None] = {
        ("topic", name): operations
        for name, operations in _topics(
            client, sorted({n.name for n in needs if n.resource == "topic"})
        ).items()
    }
    for need in needs:
        place = need.resource, need.name
        if need.resource == "group" and place not in held:
            held[place] = _group(client, need.name)
        elif need.resource == "transactional-id" and place not in held:
            held[place] = _transactional_id(client, need.name)
    return [need for need in needs if not _holds(client, held[need.resource, need.name], need)]


def _holds(client: Any, operations: set[str] | None, need: RequiredAcl) -> bool:
    if operations is None:  # the topic does not exist: only Create can be checked
        return need.operation != "Create" or _may_create(client, need.name)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", need.operation).upper() in operations


def _topics(client: Any, names: list[str]) -> dict[str, set[str] | None]:
    """Return the authorized operations on each topic; None if it does not exist, or the broker does not report them."""
    found: dict[str, set[str] | None] = {}
    for topic in client.describe_topics(names) if names else ():
        operations = topic.get("authorized_operations")
        if topic["error_code"] == _NOT_ALLOWED:
            found[topic["name"]] = set()
        elif topic["error_code"] == _UNKNOWN_TOPIC or operations is None:
            found[topic["name"]] = None
        else:
            found[topic["name"]] = set(operations)
    return found


def _may_create(client: Any, name: str) -> bool:
    from kafka import errors

    try:
        client.create_topics({name: {"num_partitions": 1, "replication_factor": 1}}, validate_only=True)
    except (errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError):
        return False
    except errors.BrokerResponseError:  # the topic exists by now, or a policy of the broker rejects it
        return True
    return True


def _group(client: Any, name: str) -> set[str]:
    """Return the authorized operations on a group, found by a heartbeat of a member that cannot exist.

    The group need not exist. Any broker may answer, since it checks the ACL before it looks for the coordinator.
    """
    from kafka.protocol.admin import DescribeGroupsRequest
    from kafka.protocol.consumer import HeartbeatRequest

    beat = HeartbeatRequest(group_id=name, generation_id=-1, member_id="cqrs-doctor")
    if answer(client, beat).error_code != _GROUP_NOT_ALLOWED:
        return {"READ", "DESCRIBE"}
    (found,) = answer(client, DescribeGroupsRequest(groups=[name])).groups
    return set() if found.error_code == _GROUP_NOT_ALLOWED else {"DESCRIBE"}


def _transactional_id(client: Any, prefix: str) -> set[str]:
    """Return the authorized operations, found by ending a transaction of a producer that cannot exist."""
    from kafka.protocol.producer.transaction import EndTxnRequest

    end = EndTxnRequest(transactional_id=f"{prefix}0", producer_id=2**62, producer_epoch=0, committed=False)
    return set() if answer(client, end).error_code == _ID_NOT_ALLOWED else {"WRITE", "DESCRIBE"}
