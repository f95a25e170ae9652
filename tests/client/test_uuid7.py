import threading
import time
import uuid

from cqrs_cli.client.uuid7 import Uuid7


def test_ids_are_version_7_uuids() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(Uuid7()())
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000


def test_ids_rise_within_a_process() -> None:
    make = Uuid7()
    made = [make() for _ in range(20_000)]
    assert made == sorted(set(made))


def test_clocks_stepping_back_are_ignored() -> None:
    make = Uuid7()
    first = make()
    make._milliseconds += 60_000
    ahead = make()
    assert first < ahead < make()


def test_full_tails_use_the_next_millisecond() -> None:
    make = Uuid7()
    make._milliseconds, make._tail = 2**47, 2**74 - 1
    assert uuid.UUID(make()).int >> 80 == 2**47 + 1


def test_threads_never_share_an_id() -> None:
    make = Uuid7()
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(make() for _ in range(2000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8000
