"""An unusable number in a variable `OTEL_*` ends each command that exports, before the command connects to a broker."""

import pytest

from cqrs_cli.cli.context import Cli
from tests.cli.conftest import Cqrs

pytest.importorskip("opentelemetry", reason="needs the extra `otel`")


def fail_if_called(_: Cli) -> None:
    raise AssertionError("the command connects to the broker")


@pytest.mark.parametrize(
    "arguments", ["run", "project recent_orders --to sqlite:///db", "serve", "trace c-1 -o otlp"]
)
def test_unusable_number_ends_the_command(
    arguments: str, cqrs: Cqrs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "0")
    result = cqrs(*arguments.split(), connect=fail_if_called)
    assert result.status == 3
    assert result.err.startswith("error: OTEL_BSP_SCHEDULE_DELAY is 0: it must be a whole number from 1 to ")
