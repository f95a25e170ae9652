"""Connections with client properties: the settings that each client gets, and the errors of the check."""

from typing import Any

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.connection import Connection


def librdkafka_settings(**properties: str) -> dict[str, Any]:
    """Return librdkafka's settings for these properties, without the address. `_` in a name means `.`."""
    config = Connection(
        "h:1", {name.replace("_", "."): value for name, value in properties.items()}
    ).librdkafka()
    assert config.pop("bootstrap.servers") == "h:1"
    return config


def property_error(properties: dict[str, str]) -> str:
    """Return the error with which the check refuses these properties."""
    with pytest.raises(ConfigurationError) as refused:
        Connection("h:1", properties).check_properties()
    return str(refused.value)
