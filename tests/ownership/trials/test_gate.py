"""Batch admission in a process: a suspect is decided alone."""

import threading
from contextlib import ExitStack

from cqrs_cli.ownership.trials.batch_admission import BatchAdmission
from tests.support.waiting import eventually


def test_batches_pass_together() -> None:
    gate = BatchAdmission()
    with gate.admit_batch(), gate.admit_batch():
        pass


def test_suspect_and_batch_never_meet() -> None:
    gate, inside, met = BatchAdmission(), set[int](), list[int]()

    def work(number: int) -> None:
        for _ in range(200):
            with gate.admit_suspect() if number % 2 else gate.admit_batch():
                inside.add(number)
                if number % 2:
                    met.append(len(inside))
                inside.discard(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert met == [1] * 400


def test_waiting_suspect_goes_first() -> None:
    gate, order = BatchAdmission(), list[str]()

    def suspect() -> None:
        with gate.admit_suspect():
            order.append("suspect")

    def batch() -> None:
        with gate.admit_batch():
            order.append("batch")

    with ExitStack() as running:
        running.enter_context(gate.admit_batch())
        first, second = threading.Thread(target=suspect), threading.Thread(target=batch)
        first.start()
        eventually(lambda: gate._waiting_suspects == 1, within=5.0)
        second.start()
    first.join()
    second.join()
    assert order == ["suspect", "batch"]


def test_failed_batch_leaves_the_gate() -> None:
    gate = BatchAdmission()
    for door in (gate.admit_batch, gate.admit_suspect):
        try:
            with door():
                raise ValueError
        except ValueError:
            pass
    with gate.admit_suspect():
        pass
