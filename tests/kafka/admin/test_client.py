import threading

from cqrs_cli.kafka.admin.client import close_failed
from tests.support.waiting import eventually


def test_threads_that_begin_late_are_ended() -> None:
    """On a busy machine, a thread may not have started when its client is closed. It must still end."""
    from kafka.net.compat import KafkaNetClient

    client = KafkaNetClient(bootstrap_servers=["127.0.0.1:1"])
    network = client._net

    def late() -> None:
        eventually(lambda: network._stop)
        network.run_forever()

    thread = network._io_thread = threading.Thread(target=late, daemon=True)
    thread.start()
    ending = threading.Thread(target=close_failed, args=[client], daemon=True)
    ending.start()
    ending.join(30)
    assert not ending.is_alive()
    assert not thread.is_alive()
