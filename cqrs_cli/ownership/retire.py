"""Ending a run from outside: fence each partition that the run still owns, and commit a terminal claim.

The fence aborts an open transaction at once instead of after its timeout; until the abort, no reader sees the records
after the transaction. The terminal claim has a higher attempt than any task, so a straggling owner returns without an
error. If the fence hits a newer run in a race, the newer run finds that the terminal claim is older, and continues.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.clients import is_broken
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.ownership.claim import Claim, parse_claim, terminal_claim
from cqrs_cli.ownership.committed_claims import ClaimReader, ClaimSlot
from cqrs_cli.ownership.session import Session
from cqrs_cli.system.concurrent_calls import call_concurrently

#: The maximal number of attempts to replace a claim.
_TRIES = 3

_P = TypeVar("_P")

#: Takes the position and its claim; returns the claim to commit, or None to keep the claim.
ClaimChange = Callable[[int, Claim], Claim | None]


def retire_partitions(
    connection: Cluster,
    slots: Mapping[_P, ClaimSlot],
    run: str,
    retire_partition: Callable[[_P], None],
    timeout: float,
) -> None:
    """Retire the partitions that the run still owns, several at a time, for at most `timeout` seconds.

    The committed claims show which partitions the run owns. The others are skipped, because each fence needs new
    clients: for a standby run, which owns no partition, nothing is fenced. If the claims cannot be read, all partitions
    are retired.
    """
    partitions: Iterable[_P] = slots
    with suppress(CqrsError), ClaimReader(connection, slots) as reader:
        partitions = [
            partition
            for partition, commit in reader.read_claims().items()
            if terminal_claim(commit.claim, run)
        ]
    call_concurrently((partial(retire_partition, partition) for partition in partitions), timeout)


def fence_and_replace_claim(open_session: Callable[[], Session[Any]], change: ClaimChange) -> None:
    """Fence a partition's owner, and replace its claim by the result of `change` for the position and the claim.

    `change` is called before the fence and, because a last commit may precede the fence, again after it; if it returns
    None, the claim stays. Without a broker nothing happens. If an owner starts before the new claim is visible, it
    fences this writer. Then all of this is tried again, at most three times in all.
    """
    for _ in range(_TRIES):
        try:
            with open_session() as session:
                _replace_claim(session, change)
            return
        except KafkaException as error:
            if not is_broken(error):
                return  # no broker answers: nothing can be fenced
        except CqrsError:
            return


def _replace_claim(session: Session[Any], change: ClaimChange) -> None:
    commit = session.read_commit(session.watcher)
    claim = parse_claim(commit.metadata)
    if claim is None or commit.offset is None or change(commit.offset, claim) is None:
        return  # a newer run owns the partition
    session.writer.fence()
    current = session.position_after_fence()
    new_claim = None if current is None else change(*current)
    if current is not None and new_claim is not None:
        session.replace_claim(current[0], new_claim)
