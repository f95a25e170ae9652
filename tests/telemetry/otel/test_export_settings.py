"""The numbers in the environment variables `OTEL_*`: an unusable number is an error that names the variable."""

import pytest
from prometheus_client import CollectorRegistry

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.telemetry.otel.export_settings import check_export_settings, read_export_settings
from cqrs_cli.telemetry.otel.tracing import metrics_exporter, start_tracing

LARGEST = 2**31 - 1


@pytest.fixture(autouse=True)
def endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("variable", "text", "allowed"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", f"a whole number from 1 to {LARGEST}"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many", f"a whole number from 1 to {LARGEST}"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "-1", "a whole number from 1 to 2048"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2049", "a whole number from 1 to 2048"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0", f"a whole number from 1 to {LARGEST}"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0", f"a whole number from 1 to {LARGEST}"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-1", f"a whole number from 1 to {LARGEST}"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1e3", f"a whole number from 1 to {LARGEST}"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "-1", f"a whole number from 0 to {LARGEST}"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0", f"a number from 0.001 to {LARGEST}"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "nan", f"a number from 0.001 to {LARGEST}"),
        ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "inf", f"a number from 0.001 to {LARGEST}"),
    ],
)
def test_unusable_number_is_an_error(
    variable: str, text: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, text)
    for start in (start_tracing, lambda: metrics_exporter(CollectorRegistry())):
        with pytest.raises(ConfigurationError, match=f"^{variable} is {text}: it must be {allowed}; "):
            start()


def test_empty_variables_have_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", " ")
    assert read_export_settings() == (2048, 512, 5_000, 60_000)


def test_small_queue_limits_the_default_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "10")
    assert read_export_settings().export_size == 10


def test_numbers_are_ignored_without_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "0")
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    check_export_settings()
