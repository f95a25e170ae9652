import socket

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition, PartitionTail
from tests.support.waiting import eventually


def test_silent_brokers_are_noted_once() -> None:
    """Nobody listens: librdkafka says so besides the messages, and goes on trying."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    notes: list[str] = []
    tail = PartitionTail(
        Connection(address), EventPartition("order", "order.events", 0), 0, notes.append, None
    )
    eventually(lambda: tail.poll(10) == ([], 0) and notes)
    for _ in range(3):
        tail.poll(10)
    tail.close()
    assert notes == [f"no answer from {address}; still trying"]
