"""Reads the settings of topics and brokers. It distinguishes unknown topics from missing ACLs."""

from collections.abc import Iterable
from typing import Any

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.admin.client import send_request
from cqrs_cli.kafka.topics.acls import RequiredAcl

_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4

_UNKNOWN_TOPIC, _NOT_ALLOWED = 3, 29


def topic_configs(client: Any, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return topic → settings, without settings that have no value. A topic that the answering broker does not know is
    left out; other brokers may know it already.

    The request is sent directly, because kafka-python's own `describe_configs` hides the error code. Raises
    `ConfigurationError` if an ACL is missing.
    """
    from kafka.protocol.admin import DescribeConfigsRequest

    resources = [(_TOPIC_RESOURCE, name, None) for name in names]
    if not resources:
        return {}
    configs_of: dict[str, dict[str, str]] = {}
    for result in send_request(client, DescribeConfigsRequest(resources=resources)).results:
        if result.error_code == _NOT_ALLOWED:
            raise RequiredAcl("DescribeConfigs", "topic", result.resource_name).denied_error()
        if result.error_code not in (0, _UNKNOWN_TOPIC):
            raise CqrsError(
                f"the settings of topic {result.resource_name} cannot be read: error {result.error_code}",
                "see cqrs doctor",
            )
        if result.error_code == 0:
            settings = ((config.name, config.value) for config in result.configs)
            configs_of[result.resource_name] = {name: value for name, value in settings if value is not None}
    return configs_of


def broker_configs(client: Any, broker: int, names: Iterable[str]) -> dict[str, str]:
    """Return the settings `names` of the broker with node id `broker`, without settings that have no value. Return an
    empty dict if the user may not read them.
    """
    from kafka.protocol.admin import DescribeConfigsRequest

    request = DescribeConfigsRequest(resources=[(_BROKER_RESOURCE, str(broker), [*names])])
    (result,) = send_request(client, request, broker).results
    return {config.name: config.value for config in result.configs if config.value is not None}
