"""The positions of the owners of places, and who they are: read from the groups' offsets and the claims beside them."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Generic, NamedTuple, Self, TypeVar

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, consumer, failed, unreachable
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.offsets import FIRST_GROUP_PATIENCE, committed
from cqrs_cli.kafka.readers import MissingError, watermarks
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.ownership.roll import present, read_roll

_P = TypeVar("_P")


class Seat(NamedTuple):
    """The place of an owner's commits: the group's offset of a partition. `beats`: a topic of whose first partition
    nobody commits an offset, where its run beats; `roll`: another one, where those sign who stand by.
    """

    group: str
    topic: str
    partition: int
    beats: str
    roll: str = ""


class Standing(NamedTuple):
    """The commit of a place; `offset` is None if nothing is, or it expired."""

    offset: int | None
    claim: Claim | None

    @property
    def open_claim(self) -> Claim | None:
        """The claim of a run that has not ended, unless it was killed."""
        return None if self.claim is None or self.claim.attempt == TERMINAL else self.claim


class Unchanged:
    """The time for which looks have shown the same, by this process's clock alone."""

    def __init__(self) -> None:
        self._last: object = None
        self._since = 0.0

    def lasts(self, seen: object, asked: float, answered: float) -> float:
        """Note what a look has shown, never None, and give the seconds for which nothing else was seen. They count from
        the first such answer to the last such question: if this process stands still itself, nothing has rested.
        """
        if seen != self._last:
            self._last, self._since = seen, answered
        return max(0.0, asked - self._since)


class Standings(Generic[_P]):
    """Reads them again and again, over one connection per group, without waiting for pending commits. Use as a context
    manager.
    """

    def __init__(self, connection: Cluster, seats: Mapping[_P, Seat]) -> None:
        self._connection, self._seats = connection, seats
        self._clients: dict[str, Consumer] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def look(self, within: float = REQUEST_TIMEOUT) -> dict[_P, Standing]:
        """The commits now; raises `UnavailableError` if the broker does not answer, and `ConfigurationError`."""
        together: dict[tuple[str, str], dict[int, _P]] = {}
        for place, seat in self._seats.items():
            together.setdefault((seat.group, seat.topic), {})[seat.partition] = place
        found: dict[_P, Standing] = {}
        for (group, topic), places in together.items():
            try:
                for number, one in committed(self._client(group), topic, places, within).items():
                    found[places[number]] = Standing(one.offset, parse_claim(one.metadata))
            except KafkaException as error:
                self.__exit__()
                raise failed(self._connection, error, RequiredAcl("Describe", "group", group)) from error
        return found

    def standbys(self) -> dict[_P, tuple[str, ...]]:
        """The runs that stand by for each place; raises as `look`."""
        now, found = time.time_ns() // 1_000_000, dict[str, tuple[str, ...]]()
        for group, roll in {(seat.group, seat.roll) for seat in self._seats.values() if seat.roll}:
            try:
                signatures = present(read_roll(self._client(group), roll), now)
            except KafkaException as error:
                self.__exit__()
                raise failed(self._connection, error, RequiredAcl("Describe", "group", group)) from error
            found[group] = tuple(sorted(one.run for one in signatures))
        return {place: found.get(seat.group, ()) for place, seat in self._seats.items()}

    def bounds(self) -> dict[_P, tuple[int, int]]:
        """(start, high watermark) of each place's log; raises `UnavailableError` if the broker does not answer."""
        try:
            return {
                place: watermarks(self._client(seat.group), seat.topic, seat.partition)
                for place, seat in self._seats.items()
            }
        except (KafkaException, MissingError) as error:
            # Never patched in place: a client that once met a broker cut off from the others said "unknown partition"
            # for minutes after all of them were back. The owners find out whether one is really missing.
            self.__exit__()
            why: Any = error.message if isinstance(error, MissingError) else error
            raise unreachable(self._connection, why) from error

    def _client(self, group: str) -> Consumer:
        if group not in self._clients:
            self._clients[group] = consumer(self._connection, group=group, isolation="read_uncommitted")
        return self._clients[group]


def standings(connection: Cluster, seats: Mapping[_P, Seat]) -> dict[_P, Standing]:
    """The commits of these places now, also of a cluster that has had no group yet; raises `UnavailableError`,
    `ConfigurationError`.
    """
    with Standings(connection, seats) as reader:
        return reader.look(FIRST_GROUP_PATIENCE)


def claims_for(
    seconds: float, connection: Cluster, seat: Seat, every: float, stopping: threading.Event
) -> Iterator[Claim | None]:
    """The claim of a seat as it is read for so many seconds, or until it is to stop: at least one look, which may fail.
    Pending commits are not waited for.
    """
    until = time.monotonic() + seconds
    with Standings(connection, {None: seat}) as reader:
        while True:
            stopping.wait(min(every, max(0.0, until - time.monotonic())))
            found = None
            with suppress(CqrsError):
                found = reader.look(FIRST_GROUP_PATIENCE)[None]
            if found is not None:
                yield found.claim
            if stopping.is_set() or time.monotonic() >= until:
                return
