"""Formats the effective settings for `cqrs doctor`."""

from datetime import timedelta
from typing import NamedTuple

from pydantic import ByteSize

from cqrs_cli.settings.durations import show_duration
from cqrs_cli.settings.java_properties import mask_secrets
from cqrs_cli.settings.settings import Settings, origins


class SettingRow(NamedTuple):
    """A setting as text. `origin`: its flag, environment variable or file, or "default"."""

    name: str
    value: str
    origin: str


def setting_rows(settings: Settings) -> list[SettingRow]:
    """Return every setting with its origin, and each client property. Secrets are masked.

    Raises `ConfigurationError` if the file of `command_config` cannot be read.
    """
    setting_origins = origins(settings)
    rows = [
        SettingRow(name, _value_text(name, getattr(settings, name)), setting_origins[name])
        for name in setting_origins
        if name != "properties"
    ]
    for name, value in mask_secrets(settings.client_properties()).items():
        from_setting = name in settings.properties  # else the property is from the file of `command_config`
        rows.append(
            SettingRow(
                f"-X {name}",
                value,
                setting_origins["properties"] if from_setting else str(settings.command_config),
            )
        )
    return rows


def _value_text(name: str, value: object) -> str:
    if name.endswith("_retention") or isinstance(value, timedelta):
        return show_duration(value if isinstance(value, timedelta) else None)
    if isinstance(value, ByteSize):
        return value.human_readable(separator=" ")
    return "" if value is None else str(value)
