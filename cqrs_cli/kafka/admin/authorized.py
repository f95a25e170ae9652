"""Asks the broker what a client's user may do, without doing any of it."""

import re
from collections.abc import Iterable
from typing import Any

from cqrs_cli.kafka.admin.client import answer
from cqrs_cli.kafka.topics.acls import RequiredAcl

_UNKNOWN_TOPIC, _NOT_ALLOWED, _GROUP_NOT_ALLOWED, _ID_NOT_ALLOWED = 3, 29, 30, 53


def missing_acls(client: Any, wanted: Iterable[RequiredAcl]) -> list[RequiredAcl]:
    """Those of `wanted` that the user of kafka-python's admin `client` is not allowed.

    Of a topic that may not even be described nothing else is known: all that is wanted of it is missing.
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
    if operations is None:  # the topic does not exist: we can only ask if we may create it
        return need.operation != "Create" or _may_create(client, need.name)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", need.operation).upper() in operations


def _topics(client: Any, names: list[str]) -> dict[str, set[str] | None]:
    """The authorized operations on each topic; None if it does not exist, or the broker does not say."""
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
    except errors.BrokerResponseError:  # it has come to exist, or a policy of the broker's has other wishes
        return True
    return True


def _group(client: Any, name: str) -> set[str]:
    """Asked with the heartbeat of a member that cannot exist: it changes nothing. The group need not exist.

    Any broker may answer: each one checks the ACL before it checks that it is the coordinator.
    """
    from kafka.protocol.admin import DescribeGroupsRequest
    from kafka.protocol.consumer import HeartbeatRequest

    beat = HeartbeatRequest(group_id=name, generation_id=-1, member_id="cqrs-doctor")
    if answer(client, beat).error_code != _GROUP_NOT_ALLOWED:
        return {"READ", "DESCRIBE"}
    (found,) = answer(client, DescribeGroupsRequest(groups=[name])).groups
    return set() if found.error_code == _GROUP_NOT_ALLOWED else {"DESCRIBE"}


def _transactional_id(client: Any, prefix: str) -> set[str]:
    """Asked with the end of a transaction whose producer cannot exist: it changes nothing."""
    from kafka.protocol.producer.transaction import EndTxnRequest

    end = EndTxnRequest(transactional_id=f"{prefix}0", producer_id=2**62, producer_epoch=0, committed=False)
    return set() if answer(client, end).error_code == _ID_NOT_ALLOWED else {"WRITE", "DESCRIBE"}
