"""Connections with client properties, as each client or the check of them sees it."""

from typing import Any

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.connection import Connection


def librdkafka(**properties: str) -> dict[str, Any]:
    """librdkafka's settings for these properties, without the address; `_` stands for `.`."""
    config = Connection(
        "h:1", {name.replace("_", "."): value for name, value in properties.items()}
    ).librdkafka()
    assert config.pop("bootstrap.servers") == "h:1"
    return config


def refusal(properties: dict[str, str]) -> str:
    """The error that refuses these properties."""
    with pytest.raises(ConfigurationError) as refused:
        Connection("h:1", properties).check()
    return str(refused.value)
