"""The memory of this machine and of this process. The memory of the process is known on Linux only."""

import ctypes
import gc
import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: glibc's parameter M_ARENA_MAX for `mallopt` (malloc.h), and the number of arenas for a process of cqrs.
_M_ARENA_MAX, ARENAS = -8, 2

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: The memory of this process in pages: proc_pid_statm(5).
_STATM_FILE = Path("/proc/self/statm")
#: The files with the memory limit of a container, of cgroups version 2 and 1.
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def bound_arenas() -> None:
    """Limit glibc to two arenas for the threads of this process; call it before the threads start. Each arena keeps its
    freed memory, and by default there are eight arenas for each core. `MALLOC_ARENA_MAX` has the same effect, but is
    read only when a process starts.
    """
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable cyclic garbage collection: reading makes no cycles, and a walk over millions of objects takes seconds."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def process_memory(statm: Path = _STATM_FILE) -> int:
    """Return the approximate bytes of memory that belong to this process alone; 0 if they are unknown."""
    try:
        _, resident, shared, *_ = statm.read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * _PAGE_BYTES


def memory_share(container_limits: Iterable[Path] = _CGROUP_LIMITS) -> int:
    """Return the bytes of memory for one of the concurrent tasks: half of the available memory, divided by the cores.

    The available memory is the machine's memory or the limit of its container, if that is lower. The result is at most
    half of the process's own limit (RLIMIT_AS).
    """
    machine_memory = os.sysconf("SC_PHYS_PAGES") * _PAGE_BYTES
    limits = filter(None, map(_container_limit, container_limits))
    share = min([machine_memory, *limits]) // (2 * (os.cpu_count() or 1))
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return share if soft_limit == resource.RLIM_INFINITY else min(share, soft_limit // 2)


def _container_limit(file: Path) -> int:
    """Return the bytes in a cgroup's file; 0 if there is no limit."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return 0
