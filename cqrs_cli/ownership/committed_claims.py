"""Committed positions and claims of partitions, read from the groups' offsets and their metadata."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Generic, NamedTuple, Self, TypeVar

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, consumer, to_error, unreachable_error
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.offsets import FIRST_GROUP_TIMEOUT, GroupCommit, committed_offsets
from cqrs_cli.kafka.readers import MissingPartitionError, all_ends, all_watermarks
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.ownership.heartbeats import Heartbeats, SilenceReader, read_heartbeats
from cqrs_cli.ownership.standby_registry import read_registry, valid_registrations

_P = TypeVar("_P")
_T = TypeVar("_T")


class ClaimSlot(NamedTuple):
    """A claim slot: the committed offset of `group` at a partition, whose metadata holds the claim of the partition's
    owner. The run commits its heartbeats at the first partition of `heartbeat_topic`, and the standby registry at the
    first partition of `registry_topic`. Nothing else commits these offsets.

    Sample: `ClaimSlot("cqrs.bank.commands", "bank.commands", 3, "bank.outcomes", "bank.events")`
    """

    group: str
    topic: str
    partition: int
    heartbeat_topic: str
    registry_topic: str = ""


class CommittedClaim(NamedTuple):
    """The commit at a claim slot; `offset` is None if there is no commit, or if it expired."""

    offset: int | None
    claim: Claim | None

    @property
    def open_claim(self) -> Claim | None:
        """The claim if it is not terminal, else None. The run of such a claim is active, or was killed."""
        return None if self.claim is None or self.claim.attempt == TERMINAL else self.claim


class UnchangedTimer:
    """Measures for how long polls have returned an equal value, by this process's clock alone."""

    def __init__(self) -> None:
        self._last_value: object = None
        self._first_answer_at = 0.0

    def seconds_unchanged(self, value: object, requested_at: float, answered_at: float) -> float:
        """Record the value of a poll, never None, and return the seconds for which it has not changed.

        The seconds count from the first response with the value (`answered_at`) to the last request that returned it
        (`requested_at`). So a pause of this process itself is not counted.
        """
        if value != self._last_value:
            self._last_value, self._first_answer_at = value, answered_at
        return max(0.0, requested_at - self._first_answer_at)


class ClaimReader(Generic[_P]):
    """Reads committed claims repeatedly, over one connection per group, without waiting for pending commits. Use as a
    context manager.
    """

    def __init__(self, connection: Cluster, slots: Mapping[_P, ClaimSlot]) -> None:
        self._connection, self._slots = connection, slots
        #: (group, topic) → {partition → the slot's key in `slots`}.
        self._keys_by_topic: dict[tuple[str, str], dict[int, _P]] = {}
        for key, slot in slots.items():
            self._keys_by_topic.setdefault((slot.group, slot.topic), {})[slot.partition] = key
        self._clients: dict[str, Consumer] = {}
        self._silence = SilenceReader()
        self._heartbeat_topics = {(slot.group, slot.heartbeat_topic) for slot in slots.values()}
        self._registry_topics = {
            (slot.group, slot.registry_topic) for slot in slots.values() if slot.registry_topic
        }
        #: The commits of the last read, and their claims: parsing takes longer than comparing.
        self._last_claims: dict[_P, tuple[GroupCommit, CommittedClaim]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def read_claims(self, timeout: float = REQUEST_TIMEOUT) -> dict[_P, CommittedClaim]:
        """Return the commits now; raises `UnavailableError` if the broker does not answer, and `ConfigurationError` if
        an ACL is missing. An unchanged commit returns the same object as the read before.
        """
        claims: dict[_P, CommittedClaim] = {}
        for (group, topic), slot_keys in self._keys_by_topic.items():
            try:
                commits = committed_offsets(self._client(group), topic, slot_keys, timeout)
                for partition, commit in commits.items():
                    claims[slot_keys[partition]] = self._claim(slot_keys[partition], commit)
            except KafkaException as error:
                self.__exit__()
                raise to_error(self._connection, error, RequiredAcl("Describe", "group", group)) from error
        return claims

    def _claim(self, key: _P, commit: GroupCommit) -> CommittedClaim:
        last = self._last_claims.get(key)
        if last is not None and last[0] == commit:
            return last[1]
        claim = CommittedClaim(commit.offset, parse_claim(commit.metadata))
        self._last_claims[key] = commit, claim
        return claim

    def read_standby_runs(self) -> dict[_P, tuple[str, ...]]:
        """Return the standby runs of each partition; raises the errors of `read_claims`."""
        now, runs = time.time_ns() // 1_000_000, dict[str, tuple[str, ...]]()
        for group, registry_topic in self._registry_topics:
            try:
                registrations = valid_registrations(read_registry(self._client(group), registry_topic), now)
            except KafkaException as error:
                self.__exit__()
                raise to_error(self._connection, error, RequiredAcl("Describe", "group", group)) from error
            runs[group] = tuple(sorted(registration.run for registration in registrations))
        return {key: runs.get(slot.group, ()) for key, slot in self._slots.items()}

    def read_silence(self, runs: Iterable[str]) -> dict[str, float]:
        """Return the silent runs among these runs, each with the seconds since its last heartbeat; raises the errors of
        `read_claims`.
        """

        def read_all_heartbeats() -> Heartbeats:
            heartbeats: dict[str, int] = {}
            for group, topic in self._heartbeat_topics:
                heartbeats |= read_heartbeats(self._client(group), topic)
            return heartbeats

        try:
            return self._silence.silent_runs(read_all_heartbeats, runs)
        except KafkaException as error:
            self.__exit__()
            raise unreachable_error(self._connection, error) from error

    def read_bounds(self) -> dict[_P, tuple[int, int]]:
        """Return (start, high watermark) of each partition's log; raises `UnavailableError` if the broker does not
        answer.
        """
        return self._read_offsets(all_watermarks)

    def read_ends(self) -> dict[_P, int]:
        """Return the high watermark of each partition's log; raises the errors of `read_bounds`."""
        return self._read_offsets(all_ends)

    def _read_offsets(self, read: Callable[[Consumer, str, Iterable[int]], dict[int, _T]]) -> dict[_P, _T]:
        offsets: dict[_P, _T] = {}
        try:
            for (group, topic), slot_keys in self._keys_by_topic.items():
                offsets_by_partition = read(self._client(group), topic, slot_keys)
                offsets |= {
                    slot_keys[partition]: offset for partition, offset in offsets_by_partition.items()
                }
            return offsets
        except (KafkaException, MissingPartitionError) as error:
            # The clients are closed and never used again: a client that was once connected to a broker which was cut
            # off from the others reported "unknown partition" for minutes after all brokers were back. The owners check
            # whether a partition is really missing.
            self.__exit__()
            reason = (
                error if isinstance(error, KafkaException) else "no broker with the partitions is reachable"
            )
            raise unreachable_error(self._connection, reason) from error

    def _client(self, group: str) -> Consumer:
        if group not in self._clients:
            self._clients[group] = consumer(self._connection, group=group, isolation="read_uncommitted")
        return self._clients[group]


def committed_claims(connection: Cluster, slots: Mapping[_P, ClaimSlot]) -> dict[_P, CommittedClaim]:
    """Return the commits at these claim slots now. This works also in a cluster that has never had a group. Raises
    `UnavailableError`, `ConfigurationError`.
    """
    with ClaimReader(connection, slots) as reader:
        return reader.read_claims(FIRST_GROUP_TIMEOUT)


def poll_claims(
    seconds: float, connection: Cluster, slot: ClaimSlot, interval: float, stopping: threading.Event
) -> Iterator[Claim | None]:
    """Yield the claim at a claim slot repeatedly, for so many seconds or until `stopping` is set. At least one read
    takes place; a read that fails yields nothing. Pending commits are not waited for.
    """
    deadline = time.monotonic() + seconds
    with ClaimReader(connection, {None: slot}) as reader:
        while True:
            stopping.wait(min(interval, max(0.0, deadline - time.monotonic())))
            committed_claim = None
            with suppress(CqrsError):
                committed_claim = reader.read_claims(FIRST_GROUP_TIMEOUT)[None]
            if committed_claim is not None:
                yield committed_claim.claim
            if stopping.is_set() or time.monotonic() >= deadline:
                return
