"""`verify --erased` finds all remains of erased values, in topics and in files."""

import sqlite3
from pathlib import Path

import pytest

from cqrs_cli.cli.render.erased import proved_erased
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.state.key_cache import KeyCache, KeyOffsets, KeyRecord
from tests.core.personal.customer import Customer
from tests.jobs.verify.customers import RING, customers, decide, erased, put_key, registered
from tests.proof.encrypted_histories import key
from tests.scans.erased.planted import ANN, entry_of, found, keep, proved, shard
from tests.support.foreign_records import append, edited, rewrite
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka


@pytest.mark.covers("verifiable")
def test_only_retention_is_waited_for(told: TopicHarness, tmp_path: Path) -> None:
    done = proved(told, tmp_path)
    assert (done.count, list(done.topics.erased)) == (0, ["ann"])
    waits = {one.topic.rpartition(".")[2]: one for one in done.topics.waiting}
    sent = told.records("commands")[0].timestamp
    week = 7 * 24 * 3600 * 1000
    assert waits.keys() == {"commands"} and waits["commands"].records == 1
    assert (waits["commands"].until or 0) >= sent + week
    assert done.needles.count == 2 and done.places == [str(tmp_path)]


@pytest.mark.covers("verifiable")
def test_event_in_plain_text(told: TopicHarness) -> None:
    def reveal(log: list[Record]) -> None:
        log[0] = edited(log[0], {"name": ANN})

    rewrite(told, "events", reveal)
    wanted = f"{told.topics.events} partition 0 offset 0 has 'name' of an erased aggregate in plain text"
    assert wanted in found(told)


@pytest.mark.covers("verifiable")
def test_key_that_came_back(told: TopicHarness) -> None:
    put_key(told, "ann", key(1))
    assert f"is key {key(1).kid} of 'ann', which was ended" in found(told)


def test_deferred_command_in_plain_text(told: TopicHarness) -> None:
    plain = entry_of(told, {"name": ANN, "mail": f"{ANN}@home"})
    (at,) = append(told, "deferred", plain)
    assert f"{told.topics.deferred} partition 0 offset {at} has 'name' and 'mail'" in found(told)
    append(told, "deferred", Record(0, 1, b"T/0", None, []))
    done = proved(told)
    assert done.count == 0 and "that later ones have followed" in str(done.topics.waiting)


def test_outcome_tells_no_value(told: TopicHarness) -> None:
    def tell(log: list[Record]) -> None:
        log[0] = edited(log[0], {"message": f"no room for {ANN.lower()}"})

    rewrite(told, "outcomes", tell)
    assert f"{told.topics.outcomes} partition 0 offset 0 says an erased value in its message" in found(told)


def test_commands_that_stay_for_ever(told: TopicHarness) -> None:
    told.configure("commands", "retention.ms", "-1")
    done = proved(told)
    assert (done.count, done.endless) == (1, [told.topics.commands])


@pytest.mark.covers("verifiable")
def test_shard_in_plain_text(told: TopicHarness) -> None:
    """Values in a shard are found by their fields, and by known texts."""
    state = encode_json(Customer("Somebody", plan="free"))
    keep(shard(told), ann=StoredState(1, 0, 0, state), bob=StoredState(1, 0, 0, state))
    assert "a shard has a plain value in the personal field 'name', of 'ann'" in found(told)


def test_shard_of_before_has_values(told: TopicHarness) -> None:
    keep(shard(told).with_name("0-set-aside"), other=StoredState(1, 0, 0, encode_json(Customer(ANN))))
    assert "data.mdb byte " in found(told)


def cache(told: TopicHarness, folder: Path) -> None:
    """Write the key cache of an owner that has not read the erasure."""
    kept = KeyCache(folder, ("k", "e"))
    wrapped = RING.wrap(told.topics.keys, "ann", key(1))
    kept.apply(kept.offsets, KeyOffsets(("k", "e"), 1, 0), [KeyRecord("ann", wrapped)])
    kept.close()


@pytest.mark.covers("verifiable")
def test_cache_of_before_has_the_key(told: TopicHarness, tmp_path: Path) -> None:
    """A copied key cache with an ended key is found, because no owner would delete the key from it."""
    elsewhere, beside = tmp_path / "backup" / "0.keys", shard(told).with_name("0.keys.old")
    wanted = f"a cache of keys has key {key(1).kid}, which was ended"
    cache(told, elsewhere)
    assert f"{elsewhere}: {wanted}" in found(told, elsewhere)
    cache(told, beside)
    assert f"{beside}: {wanted}" in found(told)


def test_cache_waits_for_its_owner(told: TopicHarness) -> None:
    """A stopped owner deletes the key before it serves again."""
    folder = shard(told).with_name("0.keys")
    cache(told, folder)
    done = proved(told)
    assert (done.count, done.caches) == (0, {str(folder): 1})
    said = str(proved_erased("customer", done).text)
    assert f"the folder is removed: 1 ended key in the cache {folder}" in said


def test_rows_of_a_projection(told: TopicHarness, tmp_path: Path) -> None:
    file = tmp_path / "projections.db"
    with sqlite3.connect(file) as database:
        database.execute("create table customers (name text)")
        database.execute("insert into customers values (?), (?)", (ANN, "Bob-of-Elm-Street"))
    database.close()
    assert str(file) in found(told, file)
    with pytest.raises(ConfigurationError, match=r"nothing\.db does not exist"):
        proved(told, tmp_path / "nothing.db")


def test_values_of_others_are_no_find(connection: Connection, prefix: str, tmp_path: Path) -> None:
    told = customers(connection, prefix, tmp_path)
    decide(
        told, registered("ann", ANN), erased("ann"), registered("bob", ANN), registered("ann", ANN, "again")
    )
    (tmp_path / "rows").write_text(ANN)
    done = proved(told, tmp_path / "rows")
    assert (done.count, done.needles.count, done.topics.shared) == (0, 0, 2)
