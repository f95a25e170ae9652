"""Reading commands without topics."""

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.cli.conftest import Cqrs

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    "command", [("show", "counter", "c"), ("tail", "counter", "events"), ("status", "counter")]
)
def test_missing_topics_end_with_3(
    cqrs_on_broker: Cqrs, command: tuple[str, ...], connection: Connection, prefix: str
) -> None:
    result = cqrs_on_broker(*command)
    assert (result.status, result.out) == (3, "")
    broker_flags = f"-b {connection.bootstrap_server} --topic-prefix {prefix}"
    assert result.err.endswith(f"does not exist; create it: cqrs init {broker_flags}\n")
