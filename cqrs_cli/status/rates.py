"""Snapshots of partitions, and the rates between two snapshots. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.status.partition import DECIDED, PlaceStatus, Rates

#: An owner that has not committed for this long, by its clock and this machine's clock, counts as idle.
_LATELY_MS = 10_000


class Look(NamedTuple):
    """All partitions at one moment, in ms since the epoch. `missing`: names without topics, each with the reason."""

    clock: int
    places: tuple[PlaceStatus, ...]
    missing: Mapping[str, ConfigurationError] = {}

    def is_busy(self) -> bool:
        """True if a partition may have progress now: then a second snapshot shows its rate."""
        return any(_is_busy(place, self.clock) for place in self.places)


def _is_busy(place: PlaceStatus, clock: int) -> bool:
    if place.kind is DECIDED:
        last = 0 if place.counts is None else place.counts.last
        return bool(place.owned) and clock - last < _LATELY_MS
    return bool(place.owned and place.lag)


def rated(before: Look | None, now: Look) -> Look:
    """Return the snapshot with the rates since the snapshot before."""
    known = {} if before is None else {place.identity: place for place in before.places}
    places = (replace(place, rates=_rates(known.get(place.identity), place)) for place in now.places)
    return now._replace(places=tuple(places))


def at_rest(look: Look) -> Look:
    """Return the snapshot of a moment without decisions: the rate of every owner is 0."""
    places = (
        replace(place, rates=None if place.counts is None else Rates(None, 0, 0)) for place in look.places
    )
    return look._replace(places=tuple(places))


def _rates(was: PlaceStatus | None, now: PlaceStatus) -> Rates | None:
    if was is None or now.at <= was.at:
        return None
    seconds = now.at - was.at
    is_same_run = _run(was) == _run(now)
    if now.kind is DECIDED:
        # A run counts from zero when it begins: counts of another run are not comparable.
        old, new = (was.counts if is_same_run else None) or Counts(), now.counts or Counts()
        done = new.commands - old.commands
        refused = (new.rejected + new.failed) - (old.rejected + old.failed)
    else:
        is_known = is_same_run and was.position is not None and now.position is not None
        done, refused = (now.position or 0) - (was.position or 0) if is_known else 0, 0
    sent = (now.end or 0) - (was.end or 0)
    return Rates(*(max(0, count) / seconds for count in (sent, done, refused)))


def _run(place: PlaceStatus) -> str | None:
    return None if place.owner is None else place.owner.run
