"""Histories of an aggregate with personal fields: sealed events, erasures, and the keys topic that fits them."""

import json
from collections.abc import Iterator
from typing import Any

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.messages.fingerprint import fingerprint
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.marks import Personal
from cqrs_cli.core.personal.sealed_data import seal_data
from cqrs_cli.core.personal.sealing import DataKey, SealPlace
from cqrs_cli.keys.ring import Ring
from cqrs_cli.keys.topic import WrappedKey
from cqrs_cli.proof.findings import Report
from cqrs_cli.proof.fingerprints import fits_of
from cqrs_cli.proof.keys import KeyRing
from cqrs_cli.proof.partition import Proof
from cqrs_cli.proof.scope import PersonalScope
from cqrs_cli.state.store import Store
from tests.proof import history
from tests.proof.history import Wish, with_value
from tests.support.rewriting import edited

RING = Ring({"m": bytes(64)})
KEYS = "tally.keys"


class Add(cqrs.Command):
    n: int
    who: Personal[str] = ""


class Drop(cqrs.Command):
    """Stands for `cqrs.Erase` until it is decided."""


class Added(cqrs.Event):
    by: int
    who: Personal[str] = ""


class Dropped(cqrs.Event):
    """Stands for `cqrs.Erased`."""


class Tally(cqrs.State):
    total: int = 0
    who: Personal[str] = ""


def decide(command: Add | Drop, tally: Tally) -> Iterator[Added | Dropped]:
    match command:
        case Add():
            yield from (Added(number, command.who) for number in range(command.n))
        case Drop():
            yield Dropped()


def evolve(tally: Tally, event: Added | Dropped) -> Tally:
    match event:
        case Added():
            return Tally(tally.total + event.by, event.who)
        case Dropped():
            return Tally(tally.total)


TALLY = Aggregate.of("tally", cqrs.Decider(decide, evolve, Tally()))


def key(number: int) -> DataKey:
    return DataKey.of_random(bytes([number]) * 72)


def says(n: int, who: str, subject: str = "a", id: str = "") -> Wish:
    return Wish(n, subject, id, attributes=(("data", {"n": n, "who": who}),))


def erase(subject: str = "a", id: str = "") -> Wish:
    return Wish(0, subject, id, attributes=(("type", "tally.Drop"), ("data", {})))


class Sealed(history.History):
    """A history whose events an owner has sealed. `keys`: the topic; each key that is made is the next `key(n)`."""

    aggregate = TALLY

    def decide(self, refused: frozenset[int] = frozenset(), window: int = history.WINDOW) -> None:
        super().decide(refused, window)
        self.keys: dict[str, WrappedKey] = {}
        self.since: list[Record] = []  # events that came when the keys were read
        self._open: dict[str, DataKey] = {}
        self._made = 0
        self.commands = [
            edited(one, type="cqrs.Erase") if b"tally.Drop" in (one.value or b"") else one
            for one in self.commands
        ]
        mark = fingerprint("cqrs.Erase", b"{}", None)
        self.outcomes = [
            edited(one, {"fingerprint": mark}, type="cqrs.Erase.accepted")
            if b"tally.Drop" in (one.value or b"")
            else one
            for one in self.outcomes
        ]
        self.events = [self._sealed(one) for one in self.events]

    def _sealed(self, record: Record) -> Record:
        event = json.loads(record.value or b"")
        subject = event["subject"]
        if event["type"] == "tally.Dropped":
            ended = self._open.pop(subject)
            del self.keys[subject]
            return edited(record, {"key": ended.kid}, type=ERASED)
        if not event["data"]["who"]:
            return record
        if subject not in self._open:
            self._made += 1
            self._open[subject] = key(self._made)
            self.keys[subject] = RING.wrap(KEYS, subject, self._open[subject])
        return sealed(record, self._open[subject])

    def prove(
        self, seen: tuple[int | None, int | None] | None = None, on_disk: bool = False, **scope: Any
    ) -> Report:
        scope = {
            "fits": fits_of(TALLY),
            "personal": PersonalScope(KeyRing("tally", self.keys.get, unwrapped)),
            **scope,
        }
        return super().prove(seen, on_disk, **scope)

    def conclude(self, proof: Proof, store: Store) -> None:
        noted = {subject: saved.state for subject, saved in store.items()}
        names = noted | self.keys
        proof.conclude_keys(((name, noted.get(name, b""), self.keys.get(name)) for name in names), self.since)


def unwrapped(subject: str, wrapped: WrappedKey) -> DataKey:
    return RING.unwrap(KEYS, subject, wrapped)


def sealed(record: Record, by: DataKey, place: str = "") -> Record:
    """The event sealed with a key."""
    event = json.loads(record.value or b"")
    data = json.dumps(event["data"]).encode()
    at = SealPlace("tally", event["subject"], place or event["id"], "")
    event["data"] = json.loads(seal_data(Added, data, by, at))
    return with_value(record, json.dumps(event).encode())
