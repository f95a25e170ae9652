"""The memory of this machine and of this process, as Linux says; elsewhere nothing is known of the process."""

import ctypes
import gc
import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: The parameter of glibc's `mallopt` (malloc.h), and the number of arenas that a process of ours may have.
_M_ARENA_MAX, ARENAS = -8, 2

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATM = Path("/proc/self/statm")
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def bound_arenas() -> None:
    """Let glibc give this process's threads two arenas: each keeps what was freed in it, and by default there are eight
    for each core. Before the threads begin. As `MALLOC_ARENA_MAX`, which is read when a process starts.
    """
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)


@contextmanager
def collecting_nothing() -> Iterator[None]:
    """Switch cyclic garbage collection off: reading makes no cycles, and walking millions of objects takes seconds."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def process_memory(statm: Path = _STATM) -> int:
    """Bytes of memory that belong to this process alone, about; 0 where nobody says."""
    try:
        _, resident, shared, *_ = statm.read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE


def memory_share(container_limits: Iterable[Path] = _CGROUP_LIMITS) -> int:
    """Bytes for one of the tasks that run here at once: half of what there is, by the number of cores.

    That is the machine's memory, or what the container or the process (RLIMIT_AS) may have of it.
    """
    found = [
        os.sysconf("SC_PHYS_PAGES") * _PAGE,
        *(limit for file in container_limits if (limit := _limit(file))),
    ]
    share = min(found) // (2 * (os.cpu_count() or 1))
    process, _ = resource.getrlimit(resource.RLIMIT_AS)
    return share if process == resource.RLIM_INFINITY else min(share, process // 2)


def _limit(file: Path) -> int:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return 0
