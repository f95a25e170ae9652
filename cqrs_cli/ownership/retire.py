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
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, is_client_unusable
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.ownership.claim import Claim, parse_claim, terminal_claim
from cqrs_cli.ownership.committed_claims import ClaimReader, ClaimSlot
from cqrs_cli.ownership.session import Session
from cqrs_cli.system.concurrent_calls import call_concurrently

#: The maximal number of calls of a procedure that other clients fence.
_TRIES = 3

_P = TypeVar("_P")

#: Takes the position and its claim; returns the claim to commit, or None to keep the claim.
ClaimChange = Callable[[int, Claim], Claim | None]


def retire_partitions(
    connection: Cluster,
    slots: Mapping[_P, ClaimSlot],
    run: str,
    replace_claim: Callable[[_P, ClaimChange], None],
    timeout: float,
) -> None:
    """Retire the partitions that the run still owns, several at a time, for at most `timeout` seconds. `replace_claim`
    fences a partition's owner and replaces its claim, here by the terminal claim.

    The committed claims show which partitions the run owns. Other partitions are skipped, because each fence needs new
    clients. So nothing is fenced for a standby run, which owns no partition. If the claims cannot be read, all
    partitions are retired.
    """
    partitions: Iterable[_P] = slots
    with suppress(CqrsError), ClaimReader(connection, slots) as reader:
        partitions = [
            partition
            for partition, commit in reader.read_claims(min(timeout, REQUEST_TIMEOUT)).items()
            if terminal_claim(commit.claim, run)
        ]

    def end_claim(position: int, claim: Claim) -> Claim | None:
        return terminal_claim(claim, run)

    call_concurrently((partial(replace_claim, partition, end_claim) for partition in partitions), timeout)


def fence_and_replace_claim(open_session: Callable[[], Session[Any]], change: ClaimChange) -> None:
    """Fence a partition's owner, and replace its claim by `change(position, claim)`; if the result is None, the claim
    stays.

    `change` is called before the fence, and again after the fence, because the owner may have committed in between. If
    no broker answers, nothing happens. If an owner starts before the new claim is visible, it fences this writer. Then
    the whole procedure is repeated (`repeat_if_fenced`).
    """

    def replace_in_new_session() -> None:
        with open_session() as session:
            _replace_claim(session, change)

    with suppress(KafkaException, CqrsError):
        repeat_if_fenced(replace_in_new_session)


def repeat_if_fenced(procedure: Callable[[], None]) -> None:
    """Call `procedure`, which opens a session, fences and commits, again if another client fences its writer; up to
    `_TRIES` calls in all. It must read the position in each call. Raises the errors of the last call.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            procedure()
            return
        except KafkaException as error:
            if not (tries_left and is_client_unusable(error)):
                raise


def _replace_claim(session: Session[Any], change: ClaimChange) -> None:
    """Do the work of `fence_and_replace_claim` in one session."""
    commit = session.read_commit(session.uncommitted_consumer)
    claim = parse_claim(commit.metadata)
    if claim is None or commit.offset is None or change(commit.offset, claim) is None:
        return  # a newer run owns the partition
    session.writer.fence()
    current = session.position_after_fence()
    new_claim = None if current is None else change(*current)
    if current is not None and new_claim is not None:
        session.replace_claim(current[0], new_claim)
