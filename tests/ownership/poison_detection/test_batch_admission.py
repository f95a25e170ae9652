"""Batch admission in a process: batches take turns, and a suspect is decided alone."""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from cqrs_cli.ownership.poison_detection.batch_admission import MAX_TURNS, BatchAdmission
from tests.support.waiting import eventually


def run_in_threads(work: Callable[[int], None], count: int) -> None:
    """Call `work` with the numbers below `count`, each in a thread, and wait for the ends."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_batches_are_admitted_together() -> None:
    admission = BatchAdmission()
    with admission.admit_batch(), admission.admit_batch():
        pass


def test_batches_take_turns() -> None:
    admission, admitted, admitted_counts = BatchAdmission(turn_timeout=60.0), list[int](), list[int]()

    def decide_batches(number: int) -> None:
        for _ in range(200):
            with admission.admit_batch():
                admitted.append(number)
                time.sleep(0)  # lets another thread run
                admitted_counts.append(len(admitted))
                admitted.remove(number)

    run_in_threads(decide_batches, 6)
    assert max(admitted_counts) == MAX_TURNS


def test_slow_batch_delays_others_until_timeout() -> None:
    admission = BatchAdmission(turn_timeout=0.01)
    with ExitStack() as slow_batches:
        for _ in range(5):
            slow_batches.enter_context(admission.admit_batch())
    with admission.admit_suspect():  # every batch has ended
        pass


def test_suspect_and_batch_are_never_concurrent() -> None:
    admission, admitted, admitted_counts = BatchAdmission(), set[int](), list[int]()

    def work(number: int) -> None:
        for _ in range(200):
            with admission.admit_suspect() if number % 2 else admission.admit_batch():
                admitted.add(number)
                if number % 2:
                    admitted_counts.append(len(admitted))
                admitted.discard(number)

    run_in_threads(work, 4)
    assert admitted_counts == [1] * 400


def test_waiting_suspect_is_admitted_first() -> None:
    admission, order = BatchAdmission(), list[str]()

    def suspect() -> None:
        with admission.admit_suspect():
            order.append("suspect")

    def batch() -> None:
        with admission.admit_batch():
            order.append("batch")

    with ExitStack() as running:
        running.enter_context(admission.admit_batch())
        suspect_thread, batch_thread = threading.Thread(target=suspect), threading.Thread(target=batch)
        suspect_thread.start()
        eventually(lambda: admission._waiting_suspects == 1, within=5.0)
        batch_thread.start()
    suspect_thread.join()
    batch_thread.join()
    assert order == ["suspect", "batch"]


def test_failed_batch_releases_the_admission() -> None:
    admission = BatchAdmission()
    for admit in (admission.admit_batch, admission.admit_suspect):
        try:
            with admit():
                raise ValueError
        except ValueError:
            pass
    with admission.admit_suspect():
        pass
