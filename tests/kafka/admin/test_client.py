"""The network thread of an admin client that failed to start is ended."""

import threading

from cqrs_cli.kafka.admin.client import close_failed
from tests.support.waiting import eventually


def test_late_threads_are_ended() -> None:
    """On a busy machine, a thread may not have started when its client is closed. It must still end."""
    from kafka.net.compat import KafkaNetClient

    client = KafkaNetClient(bootstrap_servers=["127.0.0.1:1"])
    network = client._net

    def start_late() -> None:
        eventually(lambda: network._stop)
        network.run_forever()

    thread = network._io_thread = threading.Thread(target=start_late, daemon=True)
    thread.start()
    closer = threading.Thread(target=close_failed, args=[client], daemon=True)
    closer.start()
    closer.join(30)
    assert not closer.is_alive()
    assert not thread.is_alive()
