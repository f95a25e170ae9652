"""`verify --erased` finds all remains of erased values, in topics and in files."""

import sqlite3
from pathlib import Path

import pytest

from cqrs_cli.cli.render.erased import erased_result
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.state.key_cache import KeyCache, KeyOffsets, KeyRecord
from tests.core.personal.customer import Customer
from tests.jobs.verify.customers import (
    KEYRING,
    customer_harness,
    decide,
    erase_command,
    put_key,
    register_command,
)
from tests.proof.encrypted_histories import key
from tests.scans.erased.planted import ANN, entry_of, only_violation, shard_path, verification, write_shard
from tests.support.foreign_records import append_records, changed_record, rewrite_topic
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka


@pytest.mark.covers("verifiable")
def test_only_retention_is_waited_for(harness: TopicHarness, tmp_path: Path) -> None:
    report = verification(harness, tmp_path)
    assert (report.count, list(report.topics.erased)) == (0, ["ann"])
    waits = {one.topic.rpartition(".")[2]: one for one in report.topics.waiting}
    sent = harness.records("commands")[0].timestamp
    week = 7 * 24 * 3600 * 1000
    assert waits.keys() == {"commands"} and waits["commands"].records == 1
    assert (waits["commands"].until or 0) >= sent + week
    assert report.patterns.count == 2 and report.locations == [str(tmp_path)]


@pytest.mark.covers("verifiable")
def test_event_in_plain_text(harness: TopicHarness) -> None:
    def reveal(log: list[Record]) -> None:
        log[0] = changed_record(log[0], {"name": ANN})

    rewrite_topic(harness, "events", reveal)
    wanted = f"{harness.topics.events} partition 0 offset 0 has 'name' of an erased aggregate in plain text"
    assert wanted in only_violation(harness)


@pytest.mark.covers("verifiable")
def test_restored_key_is_found(harness: TopicHarness) -> None:
    put_key(harness, "ann", key(1))
    assert f"is key {key(1).kid} of 'ann', which was deleted" in only_violation(harness)


def test_deferred_command_in_plain_text(harness: TopicHarness) -> None:
    plain = entry_of(harness, {"name": ANN, "mail": f"{ANN}@home"})
    (at,) = append_records(harness, "deferred", plain)
    assert f"{harness.topics.deferred} partition 0 offset {at} has 'name' and 'mail'" in only_violation(
        harness
    )
    append_records(harness, "deferred", Record(0, 1, b"T/0", None, []))
    report = verification(harness)
    assert report.count == 0 and "which later records replaced" in str(report.topics.waiting)


def test_outcome_tells_no_value(harness: TopicHarness) -> None:
    def tell(log: list[Record]) -> None:
        log[0] = changed_record(log[0], {"message": f"no room for {ANN.lower()}"})

    rewrite_topic(harness, "outcomes", tell)
    assert (
        f"{harness.topics.outcomes} partition 0 offset 0 has an erased value in its message"
        in only_violation(harness)
    )


def test_commands_that_stay_for_ever(harness: TopicHarness) -> None:
    harness.configure("commands", "retention.ms", "-1")
    report = verification(harness)
    assert (report.count, report.endless) == (1, [harness.topics.commands])


@pytest.mark.covers("verifiable")
def test_shard_in_plain_text(harness: TopicHarness) -> None:
    """Values in a shard are found by their fields, and by known texts."""
    state = encode_json(Customer("Somebody", plan="free"))
    write_shard(shard_path(harness), ann=StoredState(1, 0, 0, state), bob=StoredState(1, 0, 0, state))
    assert "a shard has a plain value in the personal field 'name', of 'ann'" in only_violation(harness)


def test_shard_of_before_has_values(harness: TopicHarness) -> None:
    write_shard(
        shard_path(harness).with_name("0-set-aside"), other=StoredState(1, 0, 0, encode_json(Customer(ANN)))
    )
    assert "data.mdb byte " in only_violation(harness)


def cache(harness: TopicHarness, folder: Path) -> None:
    """Write the key cache of an owner that has not read the erasure."""
    kept = KeyCache(folder, ("k", "e"))
    wrapped = KEYRING.wrap(harness.topics.keys, "ann", key(1))
    kept.apply(kept.offsets, KeyOffsets(("k", "e"), 1, 0), [KeyRecord("ann", wrapped)])
    kept.close()


@pytest.mark.covers("verifiable")
def test_cache_of_before_has_the_key(harness: TopicHarness, tmp_path: Path) -> None:
    """A copied key cache with an ended key is found, because no owner would delete the key from it."""
    elsewhere, beside = tmp_path / "backup" / "0.keys", shard_path(harness).with_name("0.keys.old")
    wanted = f"a key cache has the deleted data key {key(1).kid}"
    cache(harness, elsewhere)
    assert f"{elsewhere}: {wanted}" in only_violation(harness, elsewhere)
    cache(harness, beside)
    assert f"{beside}: {wanted}" in only_violation(harness)


def test_cache_waits_for_its_owner(harness: TopicHarness) -> None:
    """A stopped owner deletes the key before it serves again."""
    folder = shard_path(harness).with_name("0.keys")
    cache(harness, folder)
    report = verification(harness)
    assert (report.count, report.caches) == (0, {str(folder): 1})
    said = str(erased_result("customer", report).text)
    assert f"the key cache {folder} has 1 erased key, until" in said


def test_rows_of_a_projection(harness: TopicHarness, tmp_path: Path) -> None:
    file = tmp_path / "projections.db"
    with sqlite3.connect(file) as database:
        database.execute("create table customers (name text)")
        database.execute("insert into customers values (?), (?)", (ANN, "Bob-of-Elm-Street"))
    database.close()
    assert str(file) in only_violation(harness, file)
    with pytest.raises(ConfigurationError, match=r"nothing\.db does not exist"):
        verification(harness, tmp_path / "nothing.db")


def test_values_of_others_are_no_find(connection: Connection, prefix: str, tmp_path: Path) -> None:
    harness = customer_harness(connection, prefix, tmp_path)
    decide(
        harness,
        register_command("ann", ANN),
        erase_command("ann"),
        register_command("bob", ANN),
        register_command("ann", ANN, "again"),
    )
    (tmp_path / "rows").write_text(ANN)
    report = verification(harness, tmp_path / "rows")
    assert (report.count, report.patterns.count, report.topics.shared) == (0, 0, 2)
