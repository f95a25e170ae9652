"""The memory of this machine and of this process."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from cqrs_cli.system.memory import ARENAS, memory_share, process_memory


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc to measure memory")
def test_own_memory_is_counted() -> None:
    memory_before = process_memory()
    data = b"x" * (64 << 20)
    assert process_memory() - memory_before > len(data) * 0.9


def test_unknown_memory_is_nothing(tmp_path: Path) -> None:
    assert process_memory(tmp_path / "statm") == 0


@pytest.mark.parametrize(("limit", "is_less"), [("1048576", True), ("max", False)])
def test_container_has_less(tmp_path: Path, limit: str, is_less: bool) -> None:
    (tmp_path / "max").write_text(f"{limit}\n")
    assert (
        memory_share((tmp_path / "max", tmp_path / "gone")) == (1 << 20) // (2 * (os.cpu_count() or 1))
    ) == is_less


LIMITED_PROCESS = """
import resource
from cqrs_cli.system.memory import memory_share

whole, limit = memory_share(), 64 << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print(memory_share() == min(whole, limit // 2) < whole)
"""


@pytest.mark.program
def test_limited_process_takes_half() -> None:
    assert subprocess.check_output([sys.executable, "-c", LIMITED_PROCESS], text=True) == "True\n"


#: Starts threads that allocate from the C library concurrently, and prints the number of its arenas.
ALLOCATING_THREADS = """
import ctypes, re, sys, threading
from cqrs_cli.system.memory import bound_arenas

if sys.argv[1] == "bound":
    bound_arenas()
libc, barrier = ctypes.CDLL(None), threading.Barrier(8)
libc.fopen.restype = libc.malloc.restype = ctypes.c_void_p
libc.malloc_info.argtypes, libc.fclose.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]

def allocate():
    barrier.wait()
    libc.malloc(1000)
    barrier.wait()

threads = [threading.Thread(target=allocate) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
file = libc.fopen(sys.argv[2].encode(), b"w")
libc.malloc_info(0, file), libc.fclose(file)
print(len(re.findall("<heap nr", open(sys.argv[2]).read())))
"""


@pytest.mark.program
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_threads_share_arenas(tmp_path: Path) -> None:
    def arenas(mode: str) -> int:
        call = [sys.executable, "-c", ALLOCATING_THREADS, mode, str(tmp_path / mode)]
        return int(subprocess.run(call, check=True, capture_output=True, text=True).stdout)

    assert arenas("bound") <= ARENAS < arenas("free")
