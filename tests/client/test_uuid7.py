import threading
import time
import uuid

from cqrs_cli.client.uuid7 import uuid7


def test_id_contains_the_current_time() -> None:
    start_ms = time.time_ns() // 1_000_000
    generated = uuid.UUID(uuid7())
    assert (generated.version, generated.variant) == (7, uuid.RFC_4122)
    assert generated.int >> 80 >= start_ms


def test_ids_rise_within_a_process() -> None:
    ids = [uuid7() for _ in range(20_000)]
    assert ids == sorted(set(ids))


def test_threads_never_share_an_id() -> None:
    ids: list[str] = []
    threads = [threading.Thread(target=lambda: ids.extend(uuid7() for _ in range(2000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(ids)) == 8000
