"""The limits of a process for open files and address space, and what the owners of partitions need of them.

Measured with one broker: a partition's owner takes 28 descriptors (24 of them its three Kafka clients'), up to 9
more while it reads a log, 13 threads, and 16.1 GiB of address space, nearly all of it the map of its shard. Each
further broker of the cluster costs a client a thread and up to 3 descriptors.
"""

import resource
from contextlib import suppress
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError

#: Descriptors of one partition's owner, with room to read and to begin again, and for each broker after the first.
DESCRIPTORS, DESCRIPTORS_A_BROKER = 40, 12

#: Descriptors and address space of a process without any partition.
BASE_DESCRIPTORS, BASE_BYTES = 100, 2 << 30

#: Address space of one partition's owner: a shard's map, and the stacks and heaps of 13 threads.
BYTES = (16 << 30) + (256 << 20)


class Needs(NamedTuple):
    """Open files and bytes of address space that a process needs."""

    descriptors: int
    bytes: int


class Allowance(NamedTuple):
    """Open files and bytes of address space that a process may have; None is unlimited."""

    descriptors: int | None
    bytes: int | None

    def shortage(self, needs: Needs, purpose: str) -> ConfigurationError | None:
        """The error if they are too low."""
        if self.descriptors is not None and self.descriptors < needs.descriptors:
            wanted = needs.descriptors
            return ConfigurationError(
                f"{purpose} needs {wanted:,} open files, and a process may have {self.descriptors:,}",
                f"more tasks, or a higher hard limit: ulimit -n {wanted} as root; systemd: LimitNOFILE={wanted}; "
                f"containers: --ulimit nofile={wanted}",
            )
        if self.bytes is not None and self.bytes < needs.bytes:
            return ConfigurationError(
                f"{purpose} needs {needs.bytes >> 30:,} GiB of address space (maps of files, not memory), "
                f"and a process may have {self.bytes >> 30:,}",
                "more tasks, or no such limit: ulimit -v unlimited as root; systemd: LimitAS=infinity",
            )
        return None


def owner_needs(partitions: int, brokers: int = 1) -> Needs:
    """The needs of a process that owns this number of partitions."""
    each = DESCRIPTORS + DESCRIPTORS_A_BROKER * (brokers - 1)
    return Needs(BASE_DESCRIPTORS + partitions * each, BASE_BYTES + partitions * BYTES)


def hard_limits() -> Allowance:
    """The limits to which this process may raise its own."""
    return Allowance(*(_limits(kind)[1] for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS)))


def make_room(needs: Needs, purpose: str) -> None:
    """Raise this process's limits to what it needs; raises `ConfigurationError` where it may not."""
    allowed = Allowance(
        _raised(resource.RLIMIT_NOFILE, needs.descriptors), _raised(resource.RLIMIT_AS, needs.bytes)
    )
    if (error := allowed.shortage(needs, purpose)) is not None:
        raise error


def raise_descriptors(needed: int) -> int:
    """Raise this process's limit for open files to what it needs, as far as it may; how many it may have then."""
    allowed = _raised(resource.RLIMIT_NOFILE, needed)
    return needed if allowed is None else allowed


def _raised(kind: int, needed: int) -> int | None:
    """The soft limit, raised as far as the hard one allows if it is too low."""
    soft, hard = _limits(kind)
    if soft is not None and soft < needed:
        wanted = needed if hard is None else min(needed, hard)
        with suppress(ValueError, OSError):  # macOS has a lower limit of its own for each process
            resource.setrlimit(kind, (wanted, resource.RLIM_INFINITY if hard is None else hard))
    return _limits(kind)[0]


def _limits(kind: int) -> tuple[int | None, int | None]:
    """The soft and the hard limit; None is unlimited."""
    soft, hard = resource.getrlimit(kind)
    return None if soft == resource.RLIM_INFINITY else soft, None if hard == resource.RLIM_INFINITY else hard
