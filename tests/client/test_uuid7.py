import threading
import time
import uuid

from cqrs_cli.client.uuid7 import uuid7


def test_id_holds_the_present_time() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(uuid7())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 >= before


def test_ids_rise_within_a_process() -> None:
    made = [uuid7() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_threads_never_share_an_id() -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(uuid7() for _ in range(2000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8000
