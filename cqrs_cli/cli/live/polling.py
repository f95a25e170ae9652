"""Looks at all partitions of several aggregates, again and again, over the same connections."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException
from msgspec import UNSET

from cqrs_cli.cli.live.model import Look, PartitionLook, Where
from cqrs_cli.cli.live.reacting import ProcessLooker
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.reasons import STATUSES
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.explain import hidden_commands
from cqrs_cli.deciding.plan import shard_folder
from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import committed
from cqrs_cli.kafka.topics.process_topics import ProcessUse
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.ownership.trials.slow import slow_command
from cqrs_cli.telemetry.blocked import blocked_by

#: Outcomes of a partition that are read in one look, the last ones: reasons and latency are of these.
SAMPLE = 500

#: Seconds for a look at records. They only add to what is shown.
_PATIENCE = 2.0


class _Clients(NamedTuple):
    """Of one aggregate: `group` sees what may be hidden by a transaction, `reader` only what is committed."""

    topics: Topics
    partitions: int
    group: Consumer
    reader: Consumer


class StatusPoller:
    """Looks at aggregates, from one thread. Aggregates without topics are left out: see `missing`."""

    def __init__(
        self,
        connection: Connection,
        topics: Mapping[str, Topics],
        state_dir: Path,
        processes: Sequence[ProcessUse] = (),
    ) -> None:
        """Raises `ConfigurationError` if none of them has topics."""
        self._reacting = ProcessLooker(connection, processes, state_dir)
        self._connection, self._state_dir = connection, state_dir
        self.missing: dict[str, ConfigurationError] = {}
        self._partitions: dict[str, int] = {}
        self._topics = topics
        for name, of_one in topics.items():
            try:
                self._partitions[name] = readers.partitions(connection, of_one.commands)
            except ConfigurationError as error:
                self.missing[name] = error
        if not self._partitions:
            raise next(iter(self.missing.values()))
        self._outcomes: dict[Where, int] = {}  # where the outcomes ended at the look before
        self._oldest: dict[
            Where, tuple[int, int | None]
        ] = {}  # position and the timestamp of the command there
        self._hidden: set[Where] = set()  # behind a transaction at the look before
        self._open: ExitStack | None = None
        self._clients: dict[str, _Clients] = {}

    def _connected(self) -> dict[str, _Clients]:
        if self._open is None:
            self._open = ExitStack()
            for name, count in self._partitions.items():
                topics = self._topics[name]
                group = clients.consumer(self._connection, group=topics.group, isolation="read_uncommitted")
                reader = clients.consumer(self._connection, fetch_wait_max_ms=10)
                self._open.enter_context(closing(group))
                self._open.enter_context(closing(reader))
                self._clients[name] = _Clients(topics, count, group, reader)
        return self._clients

    def close(self) -> None:
        """Give the connections back; another look makes new ones."""
        self._reacting.close()
        if self._open is not None:
            self._open.close()
            self._open = None

    def look(self) -> Look:
        """All partitions now; raises `UnavailableError` if the broker does not answer."""
        seen: dict[Where, PartitionLook] = {}
        try:
            for name, of_one in self._connected().items():
                places = committed(of_one.group, of_one.topics.commands, range(of_one.partitions))
                for partition, place in places.items():
                    claim = parse_claim(place.metadata)
                    seen[name, partition] = self._partition(of_one, (name, partition), place.offset, claim)
            seen |= self._reacting.look()
        except (KafkaException, readers.MissingError, readers.StalledError) as error:
            self.close()  # a client that met a broker alone may believe it for minutes
            raise clients.unreachable(
                self._connection, error if isinstance(error, KafkaException) else str(error)
            ) from error
        return Look(time.monotonic(), time.time_ns() // 1_000_000, seen)

    def _partition(
        self, of_one: _Clients, where: Where, offset: int | None, claim: Claim | None
    ) -> PartitionLook:
        number, topics = where[1], of_one.topics
        start, end = readers.watermarks(of_one.group, topics.commands, number)
        position = max(start, offset or 0)
        outcomes = self._new_outcomes(of_one, where)
        reasons: Counter[str] = Counter()
        last: tuple[int, int] | None = None
        for record in outcomes:
            try:
                told = read_outcome(record.value).data
            except ValueError:
                continue
            if told.reason is not UNSET:
                reasons[told.reason if told.code is UNSET else told.code] += 1
            if told.offset < position:
                last = told.offset, record.timestamp
        counts = None if claim is None else claim.counts
        return PartitionLook(
            end,
            position,
            "" if claim is None else claim.run,
            claim is not None and claim.attempt == TERMINAL,
            {} if counts is None else {status: getattr(counts, status) for status in STATUSES},
            self._first_undecided(of_one, where, position, end),
            None if last is None or counts is None or not counts.last else counts.last - last[1],
            reasons,
            self._notes(of_one, where, claim, position, end),
        )

    def _new_outcomes(self, of_one: _Clients, where: Where) -> list[Record]:
        """The last outcomes since the look before; none at the first look."""
        topic, number = of_one.topics.outcomes, where[1]
        start, end = readers.watermarks(of_one.reader, topic, number)
        before, self._outcomes[where] = self._outcomes.get(where, end), end
        begin = max(start, before, end - SAMPLE)
        return self._read(of_one.reader, topic, number, begin, end)

    def _first_undecided(self, of_one: _Clients, where: Where, position: int, end: int) -> int | None:
        """The timestamp of the oldest command that waits; it is read once for a position."""
        if position >= end:
            return None
        known = self._oldest.get(where)
        if known is None or known[0] != position or known[1] is None:
            topic = of_one.topics.commands
            stable = readers.watermarks(of_one.reader, topic, where[1])[1]
            first = self._read(of_one.reader, topic, where[1], position, min(stable, position + 10))
            known = self._oldest[where] = position, first[0].timestamp if first else None
        return known[1]

    def _read(self, reader: Consumer, topic: str, partition: int, start: int, end: int) -> list[Record]:
        if start >= end:
            return []
        batches = readers.read_with(
            self._connection, reader, topic, partition, start, end, patience=_PATIENCE
        )
        try:
            return [record for batch in batches for record in batch]
        finally:
            reader.unassign()

    def _notes(
        self, of_one: _Clients, where: Where, claim: Claim | None, position: int, end: int
    ) -> tuple[str, ...]:
        """The things an operator should look at: a command on trial, a slow one, a transaction that hides commands."""
        number, topics = where[1], of_one.topics
        notes = []
        if position < end and claim is not None and claim.trial is not None:
            notes.append(str(claim.trial))
        slow = slow_command(shard_folder(self._state_dir, topics) / str(number))
        if slow is not None:
            notes.append(str(slow))
        if position < end and (why := blocked_by(shard_folder(self._state_dir, topics) / str(number))):
            notes.append(f"it waits: {why}")
        hides = position < end and readers.watermarks(of_one.reader, topics.commands, number)[1] < end
        if hides and where in self._hidden:  # at two looks: most transactions are short
            for found in hidden_commands(self._connection, [(topics.commands, number)]):
                notes.append(f"{found.hiding()}; {found.way_out(self._connection.bootstrap_server)}")
        (self._hidden.add if hides else self._hidden.discard)(where)
        return tuple(notes)


def look_or_tell(looker: StatusPoller) -> Look | str:
    """A look, or why there is none."""
    try:
        return looker.look()
    except UnavailableError as error:
        return error.message
