"""Standby mode: keep state warm, and take over when the active run ends, or stops sending heartbeats.

As a heartbeat, the driver of the active run commits a rising number in the metadata of an offset that no owner uses, so
an idle run is not taken for a dead run. A false alarm is safe: a takeover always fences and claims first, so it costs
only a short pause. The epoch of a new claim is above the replaced epoch, so a run that was taken over can come back any
number of times.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Protocol, Self

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition
from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.offsets import committed_offsets
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.ownership.committed_claims import ClaimSlot, UnchangedTimer
from cqrs_cli.ownership.standby_registry import enter_roll

#: The partition of a claim slot's heartbeat topic whose offset carries the heartbeat. Nothing else commits this offset.
BEAT_PARTITION = 0

#: Seconds from the end of a run's timeout to its last poll.
_MOMENT = 0.001

#: Heartbeats within the timeout: a single lost heartbeat must not look like the end of the run.
BEATS = 5


class Beat(Struct, frozen=True, array_like=True):
    """The heartbeat of a run. `number` rises with each heartbeat."""

    run: str
    number: int


def sign_of_life(claim: Claim, beat: Beat | None) -> tuple[str, Beat | None]:
    """Return the run of a claim and that run's last heartbeat. The value changes as long as the run lives."""
    return claim.run, beat if beat is not None and beat.run == claim.run else None


def may_begin(mine: Claim, committed_claim: Claim | None, silent: float, after: float) -> bool:
    """Return True if a standby run may take over a partition: no run has claimed it, the claim is the run's own, the
    claim is terminal, or the active run has been silent for more than `after` seconds.
    """
    if committed_claim is None or committed_claim.attempt == TERMINAL:
        return True
    return committed_claim.run == mine.run or silent > after


def risen(mine: Claim, committed_claim: Claim | None, clock: int) -> Claim:
    """Return my claim with an epoch above the committed claim. `clock` (ms) is the epoch of a run that starts now."""
    if committed_claim is None:
        return replace(mine, run_epoch=max(mine.run_epoch, clock))
    if committed_claim.run == mine.run:
        return replace(mine, run_epoch=max(mine.run_epoch, committed_claim.run_epoch))
    return replace(mine, run_epoch=max(mine.run_epoch, clock, committed_claim.run_epoch + 1))


def patience(run: str, after: float) -> float:
    """Return the seconds of silence after which this run takes over, equal at all its partitions. The timeouts of
    several standby runs differ by up to a tenth, so that the first run has claimed before the others suspect anything.
    """
    return after * random.Random(run).uniform(1.0, 1.1)


def await_turn(
    look: Callable[[], tuple[Claim | None, Beat | None]],
    mine: Claim,
    after: float,
    stopping: threading.Event,
    meanwhile: Callable[[Claim], None],
    is_fit: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    every: float | None = None,
) -> Claim | None:
    """Wait until the run may take over a partition. Return its claim from then on; None if it is stopped.

    `look` returns the committed claim and the heartbeat. `meanwhile` gets the claim of the active run after each poll.
    `is_fit` returns True if the run can continue from the active run's records. `every` is the poll interval in
    seconds, by default half a heartbeat interval. The last poll comes when the run's timeout ends, not at the next
    interval.
    """
    silence, most = UnchangedTimer(), patience(mine.run, after)
    pause = after / BEATS / 2 if every is None else every
    while not stopping.is_set():
        asked = clock()
        try:
            claim, beat = look()
        except KafkaException:
            stopping.wait(after / BEATS)  # without an answer, silence is not measured
            silence = UnchangedTimer()
            continue
        silent = 0.0 if claim is None else silence.lasts(sign_of_life(claim, beat), asked, clock())
        if may_begin(mine, claim, silent, most):
            if is_fit():
                return risen(mine, claim, time.time_ns() // 1_000_000)
            stopping.wait(after)
            continue
        assert claim is not None
        meanwhile(claim)
        stopping.wait(min(pause, most - silent + _MOMENT))
    return None


def read_beat(metadata: str) -> Beat | None:
    """Return the heartbeat in an offset's metadata; None for any other text."""
    try:
        return msgspec.json.decode(metadata.encode(), type=Beat)
    except (ValueError, RecursionError):
        return None


class StandsBy(Protocol):
    """A waiting partition, as `await_seat` uses it."""

    @property
    def stopping(self) -> threading.Event: ...

    def stand_by(self, claim: Claim) -> None:
        """Prepare for the takeover while the run of this claim is active; called repeatedly."""

    def is_fit(self) -> bool:
        """Return True if it can take over; otherwise report the reason."""


def await_seat(
    connection: Cluster,
    seat: ClaimSlot,
    mine: Claim,
    after: float,
    who: StandsBy,
    is_turn: Callable[[], bool] = lambda: False,
    every: float | None = None,
) -> Claim | None:
    """Call `await_turn` at a claim slot, with a new client. `is_turn`: True if the claim there no longer matters."""
    client = consumer(connection, group=seat.group, isolation="read_uncommitted")

    def look() -> tuple[Claim | None, Beat | None]:
        if is_turn():
            return None, None
        claimed = committed_offsets(client, seat.topic, [seat.partition])[seat.partition]
        beaten = committed_offsets(client, seat.beats, [BEAT_PARTITION])[BEAT_PARTITION]
        return parse_claim(claimed.metadata), read_beat(beaten.metadata)

    try:
        return await_turn(look, mine, after, who.stopping, who.stand_by, who.is_fit, every=every)
    finally:
        client.close()


class HeartbeatSender:
    """Sends heartbeats for a run at all its claim slots, until it is closed; in standby mode it registers the run there
    instead. Use as a context manager.

    A run that cannot send heartbeats continues; a standby run then suspects it.
    """

    def __init__(
        self,
        connection: Cluster,
        run: str,
        seats: Iterable[ClaimSlot],
        after: float,
        is_at_work: Callable[[], bool] = lambda: True,
    ) -> None:
        self._connection, self._run, self._is_at_work = connection, run, is_at_work
        self._places = sorted({(seat.group, seat.beats, seat.roll) for seat in seats})
        self._every, self._closing = after / BEATS, threading.Event()
        self._thread = threading.Thread(target=self._run_on, name="heart", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(self._every + 1.0)

    def _run_on(self) -> None:
        clients: dict[str, Consumer] = {}
        number = 0
        while not self._closing.wait(self._every):
            number += 1
            is_at_work = self._is_at_work()
            if not is_at_work and random.random() > 1 / BEATS:
                continue  # rarely and at random: runs in step would overwrite each other's registration
            text = msgspec.json.encode(Beat(self._run, number)).decode()
            for group, beats, roll in self._places:
                try:
                    if group not in clients:
                        clients[group] = consumer(self._connection, group=group, isolation="read_uncommitted")
                    if is_at_work:
                        place = TopicPartition(beats, BEAT_PARTITION, 0, text)
                        clients[group].commit(offsets=[place], asynchronous=True)
                    elif roll:
                        # The run may become active at any time, so registering may take no longer than a heartbeat
                        # interval.
                        now = time.time_ns() // 1_000_000
                        enter_roll(clients[group], roll, self._run, now, self._every)
                except KafkaException:
                    continue  # the next heartbeat has a higher number
        for client in clients.values():
            client.close()
