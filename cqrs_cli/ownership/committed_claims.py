"""Committed positions and claims of partitions, read from the groups' offsets and their metadata."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Generic, NamedTuple, Self, TypeVar

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, consumer, to_error, unreachable_error
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.offsets import FIRST_GROUP_TIMEOUT, committed_offsets
from cqrs_cli.kafka.readers import MissingError, watermarks
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.ownership.standby_registry import present, read_roll

_P = TypeVar("_P")


class ClaimSlot(NamedTuple):
    """A claim slot: the group's offset of a partition, at which its owner commits. The run commits its heartbeats at
    the first partition of `beats`, and the standby registry at the first partition of `roll`; nothing else commits
    these offsets.

    Sample: `ClaimSlot("cqrs.bank.commands", "bank.commands", 3, "bank.outcomes", "bank.events")`
    """

    group: str
    topic: str
    partition: int
    beats: str
    roll: str = ""


class CommittedClaim(NamedTuple):
    """The commit at a claim slot; `offset` is None if there is none, or if it expired."""

    offset: int | None
    claim: Claim | None

    @property
    def open_claim(self) -> Claim | None:
        """The claim, unless it is terminal: its run is active, or was killed."""
        return None if self.claim is None or self.claim.attempt == TERMINAL else self.claim


class UnchangedTimer:
    """Measures for how long polls have returned an equal value, by this process's clock alone."""

    def __init__(self) -> None:
        self._last: object = None
        self._since = 0.0

    def lasts(self, seen: object, asked: float, answered: float) -> float:
        """Record the value of a poll, never None, and return the seconds for which it has not changed.

        The seconds count from the first response with the value (`answered`) to the last request that returned it
        (`asked`). So a pause of this process itself is not counted.
        """
        if seen != self._last:
            self._last, self._since = seen, answered
        return max(0.0, asked - self._since)


class ClaimReader(Generic[_P]):
    """Reads committed claims repeatedly, over one connection per group, without waiting for pending commits. Use as a
    context manager.
    """

    def __init__(self, connection: Cluster, seats: Mapping[_P, ClaimSlot]) -> None:
        self._connection, self._seats = connection, seats
        self._clients: dict[str, Consumer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def look(self, within: float = REQUEST_TIMEOUT) -> dict[_P, CommittedClaim]:
        """Return the commits now; raises `UnavailableError` if the broker does not answer, and `ConfigurationError` if
        an ACL is missing.
        """
        together: dict[tuple[str, str], dict[int, _P]] = {}
        for place, seat in self._seats.items():
            together.setdefault((seat.group, seat.topic), {})[seat.partition] = place
        found: dict[_P, CommittedClaim] = {}
        for (group, topic), places in together.items():
            try:
                for number, one in committed_offsets(self._client(group), topic, places, within).items():
                    found[places[number]] = CommittedClaim(one.offset, parse_claim(one.metadata))
            except KafkaException as error:
                self.__exit__()
                raise to_error(self._connection, error, RequiredAcl("Describe", "group", group)) from error
        return found

    def standbys(self) -> dict[_P, tuple[str, ...]]:
        """Return the standby runs of each partition; raises the errors of `look`."""
        now, found = time.time_ns() // 1_000_000, dict[str, tuple[str, ...]]()
        for group, roll in {(seat.group, seat.roll) for seat in self._seats.values() if seat.roll}:
            try:
                signatures = present(read_roll(self._client(group), roll), now)
            except KafkaException as error:
                self.__exit__()
                raise to_error(self._connection, error, RequiredAcl("Describe", "group", group)) from error
            found[group] = tuple(sorted(one.run for one in signatures))
        return {place: found.get(seat.group, ()) for place, seat in self._seats.items()}

    def bounds(self) -> dict[_P, tuple[int, int]]:
        """Return (start, high watermark) of each partition's log; raises `UnavailableError` if the broker does not
        answer.
        """
        try:
            return {
                place: watermarks(self._client(seat.group), seat.topic, seat.partition)
                for place, seat in self._seats.items()
            }
        except (KafkaException, MissingError) as error:
            # The clients are closed, never used again: a client that had once met a broker cut off from the others
            # reported "unknown partition" for minutes after all brokers were back. The owners find out whether a
            # partition is really missing.
            self.__exit__()
            why: Any = error.message if isinstance(error, MissingError) else error
            raise unreachable_error(self._connection, why) from error

    def _client(self, group: str) -> Consumer:
        if group not in self._clients:
            self._clients[group] = consumer(self._connection, group=group, isolation="read_uncommitted")
        return self._clients[group]


def standings(connection: Cluster, seats: Mapping[_P, ClaimSlot]) -> dict[_P, CommittedClaim]:
    """Return the commits at these claim slots now, also for a cluster that has never had a group; raises
    `UnavailableError`, `ConfigurationError`.
    """
    with ClaimReader(connection, seats) as reader:
        return reader.look(FIRST_GROUP_TIMEOUT)


def claims_for(
    seconds: float, connection: Cluster, seat: ClaimSlot, every: float, stopping: threading.Event
) -> Iterator[Claim | None]:
    """Yield the claim at a claim slot repeatedly, for so many seconds or until `stopping` is set. At least one read
    takes place; a read that fails yields nothing. Pending commits are not waited for.
    """
    until = time.monotonic() + seconds
    with ClaimReader(connection, {None: seat}) as reader:
        while True:
            stopping.wait(min(every, max(0.0, until - time.monotonic())))
            found = None
            with suppress(CqrsError):
                found = reader.look(FIRST_GROUP_TIMEOUT)[None]
            if found is not None:
                yield found.claim
            if stopping.is_set() or time.monotonic() >= until:
                return
