"""Polls all partitions of aggregates and processes, once or several times over the same connections."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.processes.heard import HeardReader
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.status.aggregates import DecidedReader
from cqrs_cli.status.partition import DECIDED, PlaceStatus
from cqrs_cli.status.rates import Look, at_rest, rated
from cqrs_cli.status.shards import with_shards
from cqrs_cli.status.subscriptions import heard_place

#: Seconds between two polls of the claims, which show how fast commands are decided.
_SPEED_SECONDS = 0.5

#: Seconds after which topics that did not exist are searched again.
_ABSENT_SECONDS = 5.0


_NONE: Mapping[str, type[State]] = MappingProxyType({})


class _Places(Protocol):
    """Reads the partitions of an aggregate or a process."""

    def look(self) -> list[PlaceStatus]: ...

    def close(self) -> None: ...


class _Heard:
    """The subscriptions of a process."""

    def __init__(
        self, connection: Connection, topics: ProcessTopics, aggregates: Iterable[str], state_dir: Path
    ) -> None:
        self._reader = HeardReader(connection, topics, aggregates)
        self._topics, self._state_dir = topics, state_dir
        self.close = self._reader.close

    def look(self) -> list[PlaceStatus]:
        return [heard_place(found, self._topics, self._state_dir) for found in self._reader.look()]


class StatusReader:
    """Polls aggregates and processes, from one thread. Names without topics are left out: see `Look.missing`."""

    def __init__(
        self,
        connection: Connection,
        topics: Mapping[str, Topics],
        state_dir: Path,
        processes: Iterable[LoadedProcess] = (),
        *,
        prefix: str = "",
        again: bool = False,
        sampling: bool = False,
    ) -> None:
        """Raises `ConfigurationError` if none of the aggregates has topics. `again`, `sampling`: of `DecidedReader`."""
        self._topics, self._state_dir = topics, state_dir
        decided = partial(DecidedReader, connection, state_dir=state_dir, again=again, sampling=sampling)
        self._absent: dict[str, Callable[[], _Places]] = {
            **{name: partial(decided, one) for name, one in topics.items()},
            **{
                f"process {one.name}": partial(
                    _Heard, connection, ProcessTopics(one.name, prefix), one.sources, state_dir
                )
                for one in processes
            },
        }
        self._found: dict[str, _Places] = {}
        self.missing: dict[str, ConfigurationError] = {}
        self._find()
        if not self._found.keys() & topics.keys():
            raise next(iter(self.missing.values()))

    def _find(self) -> None:
        """Search for topics."""
        self._sought = time.monotonic()
        for name, make in list(self._absent.items()):
            try:
                self._found[name] = make()
            except ConfigurationError as error:
                self.missing[name] = error
            else:
                del self._absent[name]
                self.missing.pop(name, None)

    def look(self) -> Look:
        """Return the current status of all partitions; raises `UnavailableError` if the broker does not answer."""
        if self._absent and time.monotonic() - self._sought > _ABSENT_SECONDS:
            self._find()
        places = [place for one in self._found.values() for place in one.look()]
        return Look(time.time_ns() // 1_000_000, tuple(places), dict(self.missing))

    def look_twice(self) -> Look:
        """Return the current status with rates. This takes half a second if an owner has committed recently."""
        before = self.look()
        if not before.is_busy():
            return at_rest(before)
        time.sleep(_SPEED_SECONDS)
        return rated(before, self.look())

    def with_states(self, look: Look, store: str, summed: Mapping[str, type[State]] = _NONE) -> Look:
        """Return the snapshot with this machine's shards of the aggregates. `store`: the setting.

        `summed`: the aggregates whose states are summed up, each with their class.
        """
        found: list[PlaceStatus] = []
        for name, places in groupby(look.places, lambda place: place.name if place.kind is DECIDED else ""):
            here = [replace(one, store=store) for one in places]
            is_here = name and store == "lmdb"  # with states in memory, a shard here is obsolete
            if is_here:
                here = with_shards(here, self._topics[name], self._state_dir, summed.get(name))
            found += here
        return look._replace(places=tuple(found))

    def close(self) -> None:
        """Close the connections; another poll opens new connections."""
        for one in self._found.values():
            one.close()
