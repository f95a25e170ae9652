"""The numbers of the export, from the standard environment variables `OTEL_*`."""

import os
from typing import NamedTuple, TypeVar

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.extras import missing_modules
from cqrs_cli.telemetry.otel.endpoint import endpoint

#: The largest number in a variable. Python's queues and timeouts raise an error for much larger numbers.
_MAX_NUMBER = 2**31 - 1

_Number = TypeVar("_Number", int, float)


class ExportSettings(NamedTuple):
    """The sizes are numbers of spans, the interval and the delay are in milliseconds."""

    queue_size: int
    export_size: int
    schedule_delay: int
    metric_interval: int


def check_export_settings() -> None:
    """Raise `ConfigurationError` for a number in a variable `OTEL_*` with which this process cannot export spans or
    metrics. Call it at the start of a command, before the command has effects.
    """
    if (endpoint("TRACES") or endpoint("METRICS")) and not missing_modules("otel"):
        read_export_settings()


def read_export_settings() -> ExportSettings:
    """Return the numbers of the variables `OTEL_*`, and the specification's default for an unset or empty variable.

    Raises `ConfigurationError` for a text that is no number, and for a number with which nothing can be exported. The
    variables that only the SDK reads are checked, too: it would ignore the text, raise `ValueError`, or never export.
    """
    _number("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", 128, smallest=0)
    for signal in ("", "TRACES_", "METRICS_"):
        _number(f"OTEL_EXPORTER_OTLP_{signal}TIMEOUT", 10.0, smallest=0.001)  # seconds
    queue_size = _number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)
    return ExportSettings(
        queue_size,
        _number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", min(512, queue_size), largest=queue_size),
        _number("OTEL_BSP_SCHEDULE_DELAY", 5_000),
        _number("OTEL_METRIC_EXPORT_INTERVAL", 60_000),
    )


def _number(
    variable: str, default: _Number, smallest: _Number | int = 1, largest: int = _MAX_NUMBER
) -> _Number:
    """Return the number in a variable, of the type of `default`; raises `ConfigurationError` outside of the range."""
    if not (text := os.environ.get(variable, "").strip()):
        return default
    try:
        number = type(default)(text)
    except ValueError:
        number = None
    if number is None or not smallest <= number <= largest:
        noun = "a whole number" if isinstance(default, int) else "a number"
        raise ConfigurationError(
            f"{variable} is {text}: it must be {noun} from {smallest} to {largest}",
            f"correct {variable}, or unset it: its default is {default}",
        )
    return number
