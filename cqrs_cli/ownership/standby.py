"""A run that stands by: it holds everything ready, and begins where the run before ends, says that it ends, or is
silent.

The driver of a run at work beats: it commits a number that rises beside the groups' offsets, at a place of its own, so
that an idle run is not a silent one. A suspicion need not be right: who begins fences and claims as any later run does,
so a wrong one costs a takeover, and nothing else. A claim's epoch is above the one that it takes over from, so that a
run which was taken over can come back, for ever.
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
from cqrs_cli.kafka.offsets import committed
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.ownership.roll import enter_roll
from cqrs_cli.ownership.standing import Seat, Unchanged

#: The partition of a seat's topic of beats at which they are committed: nobody else commits an offset of it.
BEAT_PARTITION = 0

#: Seconds by which the last look comes behind the end of a run's patience.
_MOMENT = 0.001

#: Beats in the time after which a run counts as silent: one that is lost must not look like the end.
BEATS = 5


class Beat(Struct, frozen=True, array_like=True):
    """The sign of life of a run: `number` rises from one to the next."""

    run: str
    number: int


def sign_of_life(claim: Claim, beat: Beat | None) -> tuple[str, Beat | None]:
    """The run of a claim and its own last beat: as long as the run lives, this changes."""
    return claim.run, beat if beat is not None and beat.run == claim.run else None


def may_begin(mine: Claim, committed_claim: Claim | None, silent: float, after: float) -> bool:
    """True if a run that stands by may begin at a place: nobody has claimed it, it is its own, its run has ended, or it
    has been silent for more than `after` seconds.
    """
    if committed_claim is None or committed_claim.attempt == TERMINAL:
        return True
    return committed_claim.run == mine.run or silent > after


def risen(mine: Claim, committed_claim: Claim | None, clock: int) -> Claim:
    """My claim, above the committed one: `clock` (ms) is the epoch of a run that begins now."""
    if committed_claim is None:
        return replace(mine, run_epoch=max(mine.run_epoch, clock))
    if committed_claim.run == mine.run:
        return replace(mine, run_epoch=max(mine.run_epoch, committed_claim.run_epoch))
    return replace(mine, run_epoch=max(mine.run_epoch, clock, committed_claim.run_epoch + 1))


def patience(run: str, after: float) -> float:
    """Seconds of silence that this run waits for at all its places. One run waits a little longer than the other, so
    that of several one has claimed before the others suspect anybody.
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
    """Wait until the run may begin at a place: its claim from then on; None if it is to stop.

    `look` gives the committed claim and the beat; `meanwhile` is told whose claim stands; `is_fit` says whether the run
    can go on from what the one before has written. It looks `every` so many seconds, without that twice for each beat.
    The last look comes where the run's `patience` ends, not at the next round.
    """
    silence, most = Unchanged(), patience(mine.run, after)
    pause = after / BEATS / 2 if every is None else every
    while not stopping.is_set():
        asked = clock()
        try:
            claim, beat = look()
        except KafkaException:
            stopping.wait(after / BEATS)  # nothing is known: nobody is suspected
            silence = Unchanged()
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
    """The beat in an offset's metadata; None for any other text."""
    try:
        return msgspec.json.decode(metadata.encode(), type=Beat)
    except (ValueError, RecursionError):
        return None


class StandsBy(Protocol):
    """Somebody who waits for its turn at a seat."""

    @property
    def stopping(self) -> threading.Event: ...

    def stand_by(self, claim: Claim) -> None:
        """Get ready meanwhile, again and again: the run of this claim is at work."""

    def is_fit(self) -> bool:
        """True if it can take over; if it cannot, it says why."""


def await_seat(
    connection: Cluster,
    seat: Seat,
    mine: Claim,
    after: float,
    who: StandsBy,
    is_turn: Callable[[], bool] = lambda: False,
    every: float | None = None,
) -> Claim | None:
    """`await_turn` at a seat, by a client of its own. `is_turn`: true if it may begin whatever is claimed there."""
    client = consumer(connection, group=seat.group, isolation="read_uncommitted")

    def look() -> tuple[Claim | None, Beat | None]:
        if is_turn():
            return None, None
        claimed = committed(client, seat.topic, [seat.partition])[seat.partition]
        beaten = committed(client, seat.beats, [BEAT_PARTITION])[BEAT_PARTITION]
        return parse_claim(claimed.metadata), read_beat(beaten.metadata)

    try:
        return await_turn(look, mine, after, who.stopping, who.stand_by, who.is_fit, every=every)
    finally:
        client.close()


class Heart:
    """Beats for a run, at all its places, until it is closed; while it stands by it signs the roll there. Use as a
    context manager.

    A run that cannot beat goes on: then a run that stands by suspects it.
    """

    def __init__(
        self,
        connection: Cluster,
        run: str,
        seats: Iterable[Seat],
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
                continue  # seldom, and never in step with another run: they would replace each other's entry
            text = msgspec.json.encode(Beat(self._run, number)).decode()
            for group, beats, roll in self._places:
                try:
                    if group not in clients:
                        clients[group] = consumer(self._connection, group=group, isolation="read_uncommitted")
                    if is_at_work:
                        place = TopicPartition(beats, BEAT_PARTITION, 0, text)
                        clients[group].commit(offsets=[place], asynchronous=True)
                    elif roll:
                        # Its turn to beat may come at any time: it waits no longer than for a beat.
                        now = time.time_ns() // 1_000_000
                        enter_roll(clients[group], roll, self._run, now, self._every)
                except KafkaException:
                    continue  # the next beat has a higher number
        for client in clients.values():
            client.close()
