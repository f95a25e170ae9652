"""The table of processor times by process and kind of thread (`python -m benchmarks.backlog --threads`)."""

import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from benchmarks.processor_time import ProcessorTimes, ThreadKind


def use_processor(seconds: float) -> None:
    """Run a process, with a second thread, that uses so many seconds."""
    program = f"""
import threading, time
def work():
    while time.thread_time() < {seconds / 2}: pass
thread = threading.Thread(target=work)
thread.start()
work()
thread.join()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def sampled_seconds() -> dict[ThreadKind, list[float]]:
    """Return the seconds of two phases. Call it in a process of its own, because all processes below are sampled."""
    with ProcessorTimes(os.getpid()) as times:
        use_processor(0.6)
        boundary = time.time()
        use_processor(0.3)
    return times.by_phase(boundary)


@pytest.mark.program
def test_processor_times_are_sampled_by_phase() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        seconds = pool.submit(sampled_seconds).result()
    assert {process for process, _ in seconds} == {"driver"}
    first, second = (sum(phases[number] for phases in seconds.values()) for number in (0, 1))
    assert first == pytest.approx(0.6, abs=0.15)
    assert second == pytest.approx(0.3, abs=0.15)
    assert sum(seconds[ThreadKind("driver", "other threads")]) == pytest.approx(0.45, abs=0.15)
