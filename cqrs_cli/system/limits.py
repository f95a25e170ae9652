"""The limits of a process for open files and address space, and the needs of partition owners.

Measured with one broker: an owner takes 28 descriptors (24 of them for its three Kafka clients), up to 9 more while it
reads a log, 13 threads, and 16.1 GiB of address space, nearly all of it for the memory map of its shard. Each
additional broker of the cluster costs each client one thread and up to 3 descriptors.
"""

import resource
from contextlib import suppress
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError

#: Descriptors of an owner, with a reserve for reading and restarting; and the additional descriptors for each broker
#: after the first.
OWNER_DESCRIPTORS, DESCRIPTORS_PER_BROKER = 40, 12

#: Descriptors and bytes of address space of a process without a partition.
BASE_DESCRIPTORS, BASE_BYTES = 100, 2 << 30

#: Bytes of address space of an owner: the memory map of its shard, and the stacks and heaps of 13 threads.
OWNER_BYTES = (16 << 30) + (256 << 20)


class Needs(NamedTuple):
    """Open files and bytes of address space that a process needs."""

    descriptors: int
    bytes: int


class Allowance(NamedTuple):
    """Open files and bytes of address space that a process may have; None means unlimited."""

    descriptors: int | None
    bytes: int | None

    def shortage(self, needs: Needs, process: str) -> ConfigurationError | None:
        """Return the error for limits below the needs; None if they suffice. `process`: "the driver of a run"."""
        if self.descriptors is not None and self.descriptors < needs.descriptors:
            needed_count = needs.descriptors
            return ConfigurationError(
                f"{process} needs {needed_count:,} open files, and a process may have {self.descriptors:,}",
                f"use more tasks, or raise the hard limit: ulimit -n {needed_count} as root; "
                f"systemd: LimitNOFILE={needed_count}; containers: --ulimit nofile={needed_count}",
            )
        if self.bytes is not None and self.bytes < needs.bytes:
            return ConfigurationError(
                f"{process} needs {needs.bytes >> 30:,} GiB of address space (maps of files, not memory), "
                f"and a process may have {self.bytes >> 30:,}",
                "use more tasks, or remove the limit: ulimit -v unlimited as root; systemd: LimitAS=infinity",
            )
        return None


def owner_needs(partitions: int, brokers: int = 1) -> Needs:
    """Return the needs of a process that owns this number of partitions."""
    descriptors_per_partition = OWNER_DESCRIPTORS + DESCRIPTORS_PER_BROKER * (brokers - 1)
    return Needs(
        BASE_DESCRIPTORS + partitions * descriptors_per_partition, BASE_BYTES + partitions * OWNER_BYTES
    )


def hard_limits() -> Allowance:
    """Return the hard limits of this process, up to which it may raise its soft limits."""
    _, descriptors = _soft_and_hard_limit(resource.RLIMIT_NOFILE)
    _, address_space = _soft_and_hard_limit(resource.RLIMIT_AS)
    return Allowance(descriptors, address_space)


def raise_soft_limits(needs: Needs, process: str) -> None:
    """Raise the soft limits of this process to `needs`; raises `ConfigurationError` if a hard limit is too low."""
    allowance = Allowance(
        _raise_limit(resource.RLIMIT_NOFILE, needs.descriptors), _raise_limit(resource.RLIMIT_AS, needs.bytes)
    )
    if (error := allowance.shortage(needs, process)) is not None:
        raise error


def raise_descriptor_limit(needed_count: int) -> int:
    """Raise the limit for open files to `needed_count` if possible; return the limit, or `needed_count` if it is
    unlimited.
    """
    limit = _raise_limit(resource.RLIMIT_NOFILE, needed_count)
    return needed_count if limit is None else limit


def _raise_limit(kind: int, needed: int) -> int | None:
    """Raise the soft limit to `needed` (files or bytes) as far as the hard limit allows; return the soft limit, None if
    unlimited.
    """
    soft, hard = _soft_and_hard_limit(kind)
    if soft is not None and soft < needed:
        new_limit = needed if hard is None else min(needed, hard)
        with suppress(ValueError, OSError):  # macOS has another, lower limit for each process
            resource.setrlimit(kind, (new_limit, resource.RLIM_INFINITY if hard is None else hard))
    return _soft_and_hard_limit(kind)[0]


def _soft_and_hard_limit(kind: int) -> tuple[int | None, int | None]:
    """Return the soft and the hard limit; None means unlimited."""
    soft, hard = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft, None if hard == resource.RLIM_INFINITY else hard
