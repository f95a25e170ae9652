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
from tests.scans.erased.planted import (
    ANN,
    deferred_record,
    only_violation,
    shard_path,
    verify_erased,
    write_shard,
)
from tests.support.foreign_records import append_records, changed_record, rewrite_topic
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka


@pytest.mark.covers("verifiable")
def test_records_until_retention_are_no_violation(harness: TopicHarness, tmp_path: Path) -> None:
    report = verify_erased(harness, tmp_path)
    assert (report.violation_count, list(report.topic_search.erased)) == (0, ["ann"])
    waiting_topics = {
        topic.topic.rpartition(".")[2]: topic for topic in report.topic_search.remaining_records
    }
    sent_at = harness.records("commands")[0].timestamp
    week = 7 * 24 * 3600 * 1000
    assert waiting_topics.keys() == {"commands"} and waiting_topics["commands"].record_count == 1
    assert (waiting_topics["commands"].deletion_deadline or 0) >= sent_at + week
    assert report.patterns.count == 2 and report.locations == [str(tmp_path)]


@pytest.mark.covers("verifiable")
def test_event_in_plain_text(harness: TopicHarness) -> None:
    def reveal(log: list[Record]) -> None:
        log[0] = changed_record(log[0], {"name": ANN})

    rewrite_topic(harness, "events", reveal)
    expected = f"{harness.topics.events} partition 0 offset 0 has 'name' of an erased aggregate in plain text"
    assert expected in only_violation(harness)


@pytest.mark.covers("verifiable")
def test_restored_key_is_found(harness: TopicHarness) -> None:
    put_key(harness, "ann", key(1))
    assert f"is key {key(1).kid} of 'ann', which was deleted" in only_violation(harness)


def test_deferred_command_in_plain_text(harness: TopicHarness) -> None:
    entry = deferred_record(harness, {"name": ANN, "mail": f"{ANN}@home"})
    (offset,) = append_records(harness, "deferred", entry)
    assert f"{harness.topics.deferred} partition 0 offset {offset} has 'name' and 'mail'" in only_violation(
        harness
    )
    append_records(harness, "deferred", Record(0, 1, b"T/0", None, []))
    report = verify_erased(harness)
    assert report.violation_count == 0 and "which later records replaced" in str(
        report.topic_search.remaining_records
    )


def test_value_in_outcome_is_found(harness: TopicHarness) -> None:
    def add_value(log: list[Record]) -> None:
        log[0] = changed_record(log[0], {"message": f"no room for {ANN.lower()}"})

    rewrite_topic(harness, "outcomes", add_value)
    assert (
        f"{harness.topics.outcomes} partition 0 offset 0 has an erased value in its message"
        in only_violation(harness)
    )


def test_commands_without_retention_are_found(harness: TopicHarness) -> None:
    harness.configure("commands", "retention.ms", "-1")
    report = verify_erased(harness)
    assert (report.violation_count, report.permanent_topics) == (1, [harness.topics.commands])


@pytest.mark.covers("verifiable")
def test_shard_in_plain_text(harness: TopicHarness) -> None:
    """A plain value of an erased aggregate is found by its personal field, even if no command contains the value."""
    state = encode_json(Customer("Somebody", plan="free"))
    write_shard(shard_path(harness), ann=StoredState(1, 0, 0, state), bob=StoredState(1, 0, 0, state))
    assert "a shard has a plain value in the personal field 'name', of 'ann'" in only_violation(harness)


def test_quarantined_shard_is_searched(harness: TopicHarness) -> None:
    write_shard(
        shard_path(harness).with_name("0-set-aside"), other=StoredState(1, 0, 0, encode_json(Customer(ANN)))
    )
    assert "data.mdb byte " in only_violation(harness)


def write_key_cache(harness: TopicHarness, folder: Path) -> None:
    """Write the key cache of an owner that has not read the erasure."""
    key_cache = KeyCache(folder, ("k", "e"))
    wrapped = KEYRING.wrap(harness.topics.keys, "ann", key(1))
    key_cache.apply(key_cache.offsets, KeyOffsets(("k", "e"), 1, 0), [KeyRecord("ann", wrapped)])
    key_cache.close()


@pytest.mark.covers("verifiable")
def test_copied_key_cache_is_found(harness: TopicHarness, tmp_path: Path) -> None:
    """A copied key cache with a deleted key is a violation, because no owner would remove the key from the copy."""
    copied, renamed = tmp_path / "backup" / "0.keys", shard_path(harness).with_name("0.keys.old")
    expected = f"a key cache has the deleted data key {key(1).kid}"
    write_key_cache(harness, copied)
    assert f"{copied}: {expected}" in only_violation(harness, copied)
    write_key_cache(harness, renamed)
    assert f"{renamed}: {expected}" in only_violation(harness)


def test_key_cache_of_stopped_owner_is_no_violation(harness: TopicHarness) -> None:
    """An owner removes deleted keys from its key cache when it starts, before it decides."""
    folder = shard_path(harness).with_name("0.keys")
    write_key_cache(harness, folder)
    report = verify_erased(harness)
    assert (report.violation_count, report.deleted_key_counts) == (0, {str(folder): 1})
    output = str(erased_result("customer", report).text)
    assert f"the key cache {folder} has 1 erased key, until" in output


def test_rows_of_a_projection(harness: TopicHarness, tmp_path: Path) -> None:
    file = tmp_path / "projections.db"
    with sqlite3.connect(file) as database:
        database.execute("create table customers (name text)")
        database.execute("insert into customers values (?), (?)", (ANN, "Bob-of-Elm-Street"))
    database.close()
    assert str(file) in only_violation(harness, file)
    with pytest.raises(ConfigurationError, match=r"nothing\.db does not exist"):
        verify_erased(harness, tmp_path / "nothing.db")


def test_values_of_other_customers_are_no_finding(
    connection: Connection, prefix: str, tmp_path: Path
) -> None:
    harness = customer_harness(connection, prefix, tmp_path)
    decide(
        harness,
        register_command("ann", ANN),
        erase_command("ann"),
        register_command("bob", ANN),
        register_command("ann", ANN, "again"),
    )
    (tmp_path / "rows").write_text(ANN)
    report = verify_erased(harness, tmp_path / "rows")
    assert (report.violation_count, report.patterns.count, report.topic_search.shared_text_count) == (0, 0, 2)
