"""The types of settings with their own syntax: durations, addresses, client properties."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.settings.durations import parse_duration
from cqrs_cli.storage.folder import check_folder

_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")

#: The maximal number of dots in the name of a client property. librdkafka's longest names have seven.
_MAX_DOTS = 20

#: A thousand years, so that sums of durations do not overflow in Python and Kafka.
_MAX_DURATION = timedelta(days=365_000)


def _parse_setting_duration(value: object) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, timedelta):
        return value
    raise ValueError("a duration has a unit: 30s, 15m, 24h, 7d")


def _parse_retention(value: object) -> object:
    return None if value in (None, "unlimited") else _parse_setting_duration(value)


def check_servers(value: str) -> str:
    """Return `value`, addresses HOST:PORT with commas between; raises `ValueError` for another text."""
    for address in value.split(","):
        match = _ADDRESS.fullmatch(address.strip())
        if match is None or not 0 < int(match[1]) < 65536:
            raise ValueError(f"not HOST:PORT: {address[:80]!r}")
    return value


def _flatten_properties(value: object) -> object:
    """Return client properties by name, as texts. TOML parses a name with dots as nested tables."""
    if not isinstance(value, Mapping):
        raise ValueError("not a table of client properties")
    return dict(flat_entries("", value))


def flat_entries(prefix: str, table: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the entries of a nested table: `{"client": {"id": 7}}` gives `("client.id", "7")`.

    `prefix` precedes each name. Raises `ValueError` for a table that is nested too deeply.
    """
    if prefix.count(".") > _MAX_DOTS:
        raise ValueError("nested too deeply for a client property")
    entries: list[tuple[str, str]] = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            entries += flat_entries(f"{prefix}{name}.", value)
        else:
            entries.append((prefix + name, str(value).lower() if isinstance(value, bool) else str(value)))
    return entries


Duration = Annotated[
    timedelta, BeforeValidator(_parse_setting_duration), Field(gt=timedelta(0), le=_MAX_DURATION)
]
Retention = Annotated[timedelta | None, BeforeValidator(_parse_retention)]


#: One or more HOST:PORT, with commas between.
Servers = Annotated[str, AfterValidator(check_servers)]

#: Client properties by their Java names.
ClientProperties = Annotated[dict[str, str], BeforeValidator(_flatten_properties)]


def _check_store(uri: str) -> str:
    """Return the address of a store; a password in it is rejected, because settings are shown and sent to each task."""
    try:
        check_folder(uri)
    except ConfigurationError as error:
        raise ValueError(error.message) from None
    return uri


#: A folder's path or URI.
StoreAddress = Annotated[str, AfterValidator(_check_store)]
