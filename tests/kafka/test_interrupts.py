"""A Ctrl-C that the Kafka client loses is raised."""

import pytest

from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection


class Producer:
    """A producer that loses a Ctrl-C like the binding does: the interrupted delivery report ends without an error."""

    def poll(self, timeout: float) -> int:
        return 0

    def flush(self, timeout: float) -> int:
        raise SystemError("returned NULL without setting an exception")


def test_lost_ctrl_c_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "producer", lambda *_, **__: Producer())
    with pytest.raises(KeyboardInterrupt):
        CommandProducer(Connection("127.0.0.1:9"), "murmur2").flush()
