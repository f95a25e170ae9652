"""Standby mode: keep state warm, and take over when the active run ends, or stops sending heartbeats.

As a heartbeat, the driver of the active run commits a rising number in the metadata of an offset that no owner uses, so
that an idle run does not look like a dead run. If two runs are active, as during a repartitioning, each has a number.
A false alarm is safe: a takeover always fences and claims first, so it costs only a short pause. The epoch of a new
claim is above the replaced epoch, so a run that was taken over can come back any number of times.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol, Self

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition
from msgspec.structs import replace

from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.offsets import committed_offsets
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.ownership.committed_claims import ClaimSlot, UnchangedTimer
from cqrs_cli.ownership.heartbeats import HEARTBEAT_PARTITION, Heartbeats, read_heartbeats
from cqrs_cli.ownership.standby_registry import register_standby

#: Seconds by which the last poll is after the end of the timeout.
_POLL_MARGIN = 0.001

#: Seconds without a new heartbeat after which the other runs drop the heartbeat of a run.
_DROPPED_AFTER = 10.0

#: The number of heartbeats within a timeout. It is greater than 1, since a single lost heartbeat must not look like the
#: end of the run.
HEARTBEATS_PER_TIMEOUT = 5


def run_and_heartbeat(claim: Claim, heartbeats: Heartbeats) -> tuple[str, int | None]:
    """Return the run of a claim, and the last heartbeat of this run. The value changes as long as the run is alive."""
    return claim.run, heartbeats.get(claim.run)


def can_take_over(own_claim: Claim, committed_claim: Claim | None, silence: float, timeout: float) -> bool:
    """Return True if a standby run may take over a partition: no run has claimed it, the claim is the run's own, the
    claim is terminal, or the active run has been silent for more than `timeout` seconds.
    """
    if committed_claim is None or committed_claim.attempt == TERMINAL:
        return True
    return committed_claim.run == own_claim.run or silence > timeout


def next_claim(own_claim: Claim, committed_claim: Claim | None, clock: int) -> Claim:
    """Return the own claim with an epoch above the epoch of the committed claim.

    `clock` (ms) is the epoch of a run that starts now.
    """
    if committed_claim is None:
        return replace(own_claim, run_epoch=max(own_claim.run_epoch, clock))
    if committed_claim.run == own_claim.run:
        return replace(own_claim, run_epoch=max(own_claim.run_epoch, committed_claim.run_epoch))
    return replace(own_claim, run_epoch=max(own_claim.run_epoch, clock, committed_claim.run_epoch + 1))


def takeover_timeout(run: str, standby_timeout: float) -> float:
    """Return the seconds of silence after which this run takes over, equal at all its partitions. The timeouts of
    several standby runs differ by up to a tenth, so that one run has claimed before the timeouts of the others end.
    """
    return standby_timeout * random.Random(run).uniform(1.0, 1.1)


def wait_for_takeover(
    read_claim_and_heartbeats: Callable[[], tuple[Claim | None, Heartbeats]],
    own_claim: Claim,
    standby_timeout: float,
    stopping: threading.Event,
    prepare_takeover: Callable[[Claim], None],
    is_ready: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    poll_interval: float | None = None,
    may_ignore_claim: Callable[[Claim | None], bool] = lambda claim: False,
) -> Claim | None:
    """Wait until the run may take over a partition. Return the run's claim from then on; None if the run is stopped.

    `prepare_takeover` gets the claim of the active run after each poll. `is_ready` returns True if the run can continue
    from the active run's records. `poll_interval` is in seconds, by default half a heartbeat interval. The last poll
    takes place when the timeout ends, not after a whole interval. `may_ignore_claim` returns True if this run need not
    wait for the run of the claim, as for a partition that it splits.
    """
    timer, timeout = UnchangedTimer(), takeover_timeout(own_claim.run, standby_timeout)
    interval = standby_timeout / HEARTBEATS_PER_TIMEOUT / 2 if poll_interval is None else poll_interval
    while not stopping.is_set():
        requested_at = clock()
        try:
            claim, heartbeats = read_claim_and_heartbeats()
        except KafkaException:
            # A time without answers must not count as silence of the run.
            stopping.wait(standby_timeout / HEARTBEATS_PER_TIMEOUT)
            timer = UnchangedTimer()
            continue
        silence = 0.0
        if claim is not None:
            silence = timer.seconds_unchanged(run_and_heartbeat(claim, heartbeats), requested_at, clock())
        if may_ignore_claim(claim) or can_take_over(own_claim, claim, silence, timeout):
            if is_ready():
                return next_claim(own_claim, claim, time.time_ns() // 1_000_000)
            stopping.wait(standby_timeout)
            continue
        assert claim is not None
        prepare_takeover(claim)
        stopping.wait(min(interval, timeout - silence + _POLL_MARGIN))
    return None


class OtherHeartbeats:
    """The heartbeats of other runs in the same offset metadata, such as during a repartitioning. This run writes them
    again with its own heartbeat, and drops the last heartbeat of a run that has ended.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._timers: dict[str, UnchangedTimer] = {}

    def keep_active(self, heartbeats: Heartbeats, requested_at: float, answered_at: float) -> Heartbeats:
        """Record the heartbeats of a poll; return the heartbeats of other runs that are still sent."""
        other_heartbeats = {run: number for run, number in heartbeats.items() if run != self._run}
        self._timers = {run: self._timers.get(run) or UnchangedTimer() for run in other_heartbeats}
        silence = {
            run: self._timers[run].seconds_unchanged(number, requested_at, answered_at)
            for run, number in other_heartbeats.items()
        }
        return {run: number for run, number in other_heartbeats.items() if silence[run] < _DROPPED_AFTER}


class StandbyPartition(Protocol):
    """A partition of a standby run, for which `wait_at_slot` waits."""

    @property
    def stopping(self) -> threading.Event: ...

    def prepare_takeover(self, claim: Claim) -> None:
        """Prepare for the takeover while the run of this claim is active; called repeatedly."""

    def is_ready(self) -> bool:
        """Return True if it can take over; otherwise report the reason."""


def wait_at_slot(
    connection: Cluster,
    slot: ClaimSlot,
    own_claim: Claim,
    standby_timeout: float,
    partition: StandbyPartition,
    may_ignore_claim: Callable[[Claim | None], bool] = lambda claim: False,
    poll_interval: float | None = None,
) -> Claim | None:
    """Call `wait_for_takeover` at a claim slot, with a new client."""
    client = consumer(connection, group=slot.group, isolation="read_uncommitted")

    def read_claim_and_heartbeats() -> tuple[Claim | None, Heartbeats]:
        claim_commit = committed_offsets(client, slot.topic, [slot.partition])[slot.partition]
        return parse_claim(claim_commit.metadata), read_heartbeats(client, slot.heartbeat_topic)

    try:
        return wait_for_takeover(
            read_claim_and_heartbeats,
            own_claim,
            standby_timeout,
            partition.stopping,
            partition.prepare_takeover,
            partition.is_ready,
            poll_interval=poll_interval,
            may_ignore_claim=may_ignore_claim,
        )
    finally:
        client.close()


class HeartbeatSender:
    """Sends heartbeats for a run at all its claim slots, until it is closed; in standby mode it registers the run there
    instead. Use as a context manager.

    A run that cannot send heartbeats continues, until a standby run takes over.
    """

    def __init__(
        self,
        connection: Cluster,
        run: str,
        slots: Iterable[ClaimSlot],
        standby_timeout: float,
        is_active: Callable[[], bool] = lambda: True,
    ) -> None:
        self._connection, self._run, self._is_active = connection, run, is_active
        self._destinations = sorted(
            {(slot.group, slot.heartbeat_topic, slot.registry_topic) for slot in slots}
        )
        self._interval, self._closing = standby_timeout / HEARTBEATS_PER_TIMEOUT, threading.Event()
        self._thread = threading.Thread(target=self._send_repeatedly, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(self._interval + 1.0)

    def _send_repeatedly(self) -> None:
        """Send heartbeats, or register the standby run, until the sender is closed."""
        clients: dict[str, Consumer] = {}
        other_heartbeats = {destination: OtherHeartbeats(self._run) for destination in self._destinations}
        # The intervals are random, so that two runs do not send at the same time again and again.
        while not self._closing.wait(self._interval * random.uniform(0.9, 1.1)):
            is_active = self._is_active()
            if not is_active and random.random() > 1 / HEARTBEATS_PER_TIMEOUT:
                continue  # registers rarely and at random: simultaneous runs would overwrite each other's registration
            now = time.time_ns() // 1_000_000
            for destination in self._destinations:
                group, heartbeat_topic, registry_topic = destination
                try:
                    if group not in clients:
                        clients[group] = consumer(self._connection, group=group, isolation="read_uncommitted")
                    if is_active:
                        self._send(clients[group], heartbeat_topic, now, other_heartbeats[destination])
                    elif registry_topic:
                        # The run may become active at any time, so registering may take no longer than a heartbeat
                        # interval.
                        register_standby(clients[group], registry_topic, self._run, now, self._interval)
                except KafkaException:
                    continue  # the next heartbeat has a higher number
        for client in clients.values():
            client.close()

    def _send(self, client: Consumer, topic: str, number: int, other_heartbeats: OtherHeartbeats) -> None:
        """Send a heartbeat, and keep the heartbeats of other active runs."""
        requested_at = time.monotonic()
        heartbeats = read_heartbeats(client, topic, self._interval)
        active = other_heartbeats.keep_active(heartbeats, requested_at, time.monotonic())
        text = msgspec.json.encode({**active, self._run: number}).decode()
        client.commit(offsets=[TopicPartition(topic, HEARTBEAT_PARTITION, 0, text)], asynchronous=True)
