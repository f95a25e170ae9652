"""Polls all partitions of aggregates and processes, once or several times over the same connections."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from msgspec.structs import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.extras import missing_modules
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.following.processes.subscription_reader import SubscriptionReader
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.status.aggregates import AggregateStatusReader
from cqrs_cli.status.partition import AGGREGATE, PartitionStatus
from cqrs_cli.status.rates import StatusSnapshot, with_rates, with_zero_rates
from cqrs_cli.status.subscriptions import subscription_status

#: Seconds between two polls of the claims, which show how fast commands are decided. Owners commit their claims twice a
#: second.
_RATE_INTERVAL = 0.75

#: Seconds after which topics that did not exist are searched again.
_SEARCH_INTERVAL = 5.0

_NO_AGGREGATES: Mapping[str, Aggregate] = MappingProxyType({})


class _StatusSource(Protocol):
    """Reads the partitions of an aggregate or a process."""

    def poll_statuses(self) -> list[PartitionStatus]: ...

    def close(self) -> None: ...


class _SubscriptionStatuses:
    """Reads the status of the subscriptions of a process."""

    def __init__(
        self, connection: Connection, topics: ProcessTopics, aggregates: Iterable[str], state_dir: Path
    ) -> None:
        self._reader = SubscriptionReader(connection, topics, aggregates)
        self._topics, self._state_dir = topics, state_dir
        self.close = self._reader.close

    def poll_statuses(self) -> list[PartitionStatus]:
        return [
            subscription_status(state, self._topics, self._state_dir) for state in self._reader.read_states()
        ]


class StatusReader:
    """Polls aggregates and processes, from one thread. `StatusSnapshot.missing` has the names without topics."""

    def __init__(
        self,
        connection: Connection,
        topics: Mapping[str, Topics],
        state_dir: Path,
        processes: Iterable[LoadedProcess] = (),
        *,
        prefix: str = "",
        confirm_hidden: bool = False,
        max_samples: float = 0,
    ) -> None:
        """Raises `ConfigurationError` if none of the aggregates has topics.

        `confirm_hidden` and `max_samples` are passed to `AggregateStatusReader`.
        """
        self._topics, self._state_dir = topics, state_dir
        aggregate_reader = partial(
            AggregateStatusReader,
            connection,
            state_dir=state_dir,
            confirm_hidden=confirm_hidden,
            max_samples=max_samples,
        )
        # Aggregate or process without topics → the function that creates its reader.
        self._missing_sources: dict[str, Callable[[], _StatusSource]] = {
            **{
                name: partial(aggregate_reader, aggregate_topics) for name, aggregate_topics in topics.items()
            },
            **{
                f"process {process.name}": partial(
                    _SubscriptionStatuses,
                    connection,
                    ProcessTopics(process.name, prefix),
                    process.sources,
                    state_dir,
                )
                for process in processes
            },
        }
        self._sources: dict[str, _StatusSource] = {}  # aggregate or process with topics → its reader
        self.missing: dict[str, ConfigurationError] = {}  # aggregate or process without topics → the error
        self._find_topics()
        if not self._sources.keys() & topics.keys():
            raise next(iter(self.missing.values()))

    def _find_topics(self) -> None:
        """Create a reader for each aggregate and process whose topics exist now; store the errors of the others."""
        self._searched_at = time.monotonic()
        for name, make_source in list(self._missing_sources.items()):
            try:
                self._sources[name] = make_source()
            except ConfigurationError as error:
                self.missing[name] = error
            else:
                del self._missing_sources[name]
                self.missing.pop(name, None)

    def poll_statuses(self) -> StatusSnapshot:
        """Return the current status of all partitions; raises `UnavailableError` if the broker does not answer."""
        if self._missing_sources and time.monotonic() - self._searched_at > _SEARCH_INTERVAL:
            self._find_topics()
        statuses = [status for source in self._sources.values() for status in source.poll_statuses()]
        return StatusSnapshot(time.time_ns() // 1_000_000, tuple(statuses), dict(self.missing))

    def poll_with_rates(self) -> StatusSnapshot:
        """Return the current status with rates. This takes 0.75 s if an owner has committed recently."""
        first_snapshot = self.poll_statuses()
        if not first_snapshot.is_busy():
            return with_zero_rates(first_snapshot)
        time.sleep(_RATE_INTERVAL)
        return with_rates(first_snapshot, self.poll_statuses())

    def with_states(
        self,
        snapshot: StatusSnapshot,
        store: str,
        aggregates_for_digests: Mapping[str, Aggregate] = _NO_AGGREGATES,
    ) -> StatusSnapshot:
        """Return the snapshot with this machine's shards of the aggregates. `store`: the setting `store`.

        `aggregates_for_digests`: aggregates by name; the digests of their states are summed up.
        """
        statuses: list[PartitionStatus] = []
        for name, group in groupby(
            snapshot.statuses, lambda status: status.name if status.kind is AGGREGATE else ""
        ):
            own_statuses = [replace(status, store=store) for status in group]
            has_shards = name and store == "lmdb"  # with states in memory, a shard here is obsolete
            if has_shards and not missing_modules("spark"):  # without LMDB this machine has no shard
                from cqrs_cli.status.shards import with_shards

                own_statuses = with_shards(
                    own_statuses, self._topics[name], self._state_dir, aggregates_for_digests.get(name)
                )
            statuses += own_statuses
        return snapshot._replace(statuses=tuple(statuses))

    def close(self) -> None:
        """Close the connections; another poll opens new connections."""
        for source in self._sources.values():
            source.close()
