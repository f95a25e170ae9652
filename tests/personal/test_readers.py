"""Every reader gets decrypted values with the keyring, and redacted values without it and after an erasure."""

import json
from contextlib import closing
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest

from cqrs_cli.client.aggregate_logs import find_ranges, read_records
from cqrs_cli.client.codecs import decrypting_codec
from cqrs_cli.client.compose import compose
from cqrs_cli.client.history import AggregateHistory, fold_history
from cqrs_cli.client.queries.personal import current_key_id
from cqrs_cli.client.queries.simulation import Simulation
from cqrs_cli.client.queries.trace import trace_messages
from cqrs_cli.codec.encrypted_events import personal_members
from cqrs_cli.core.digest import as_hex
from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.jobs.export.driver import exported_rows, plan_export
from cqrs_cli.jobs.replay.driver import plan_replay
from cqrs_cli.kafka.admin.topics import Admin, find_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition, PartitionTail
from cqrs_cli.kafka.topics.checks import aggregate_topics
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.scans.replay.task import fold_part, replay_part
from cqrs_cli.spark.offset_ranges import OffsetRange
from cqrs_cli.spark.options import SourceKind
from cqrs_cli.spark.plan import SourcePlan
from cqrs_cli.spark.task import read_range
from tests.personal.people import ANNS_DATA, FIRST_KEY, MASKED_DATA, SECOND_KEY, People
from tests.support.topic_loss import delete_topics
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def read_history(people: People, connection: Connection, subject: str = "ann") -> AggregateHistory:
    """Return the events and the state, as `cqrs show --history` has them."""
    aggregate, topics = people.harness.aggregate, people.topics
    ranges = find_ranges(connection, topics, subject.encode(), "murmur2")
    with closing(decrypting_codec(connection, topics, aggregate, subject)) as codec:
        records = read_records(connection, subject.encode(), ranges, codec)
        return fold_history(aggregate, records, lambda _history: True)


def data(history: AggregateHistory) -> list[Any]:
    return [json.loads(bytes(event.data)) for event in history.events]


def test_history_is_decrypted_with_the_keyring(people: People) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    decrypted, redacted = (
        read_history(people, people.connection),
        read_history(people, people.connection_without_keyring),
    )
    assert (data(decrypted), data(redacted)) == ([ANNS_DATA], [MASKED_DATA])
    assert (decrypted.state.name, redacted.state.name, redacted.state.plan) == ("Ann Smith", "", "free")  # type: ignore[attr-defined]


def test_history_before_an_erasure_is_redacted(people: People) -> None:
    """The first event is encrypted with the erased key, the last event with the next key."""
    people.register_with_new_key("ann", FIRST_KEY)
    people.erase("ann", FIRST_KEY)
    people.register_with_new_key("ann", SECOND_KEY)
    history = read_history(people, people.connection)
    assert data(history) == [MASKED_DATA, {"key": FIRST_KEY.kid}, ANNS_DATA]


def test_lost_key_stops_whole_reads(people: People) -> None:
    """The key's record was deleted by hand. Readers without values continue."""
    people.register_with_new_key("ann", FIRST_KEY)
    people.put_key("ann", None)
    message = (
        f"key {FIRST_KEY.kid} of 'ann' is not in {people.topics.keys} partition 0, and it was not erased"
    )
    with pytest.raises(ContradictionError, match=message):
        read_history(people, people.connection)
    export_plan = plan_export(people.connection, people.topics, "people", people.folder)
    with pytest.raises(ContradictionError, match=message):
        list(exported_rows(replace(export_plan, with_personal_values=True), 0, "jsonl"))
    assert list(exported_rows(export_plan, 0, "jsonl"))
    replay_plan = plan_replay(people.connection, people.topics, "people", people.folder)
    error = replay_part(replace(replay_plan, with_personal_values=True), 0).error
    assert isinstance(error, ContradictionError)
    assert message in error.message
    assert replay_part(replay_plan, 0).error is None
    assert data(read_history(people, people.connection_without_keyring)) == [MASKED_DATA]


def test_erasure_after_the_end_counts(people: People) -> None:
    """A replay up to a point before the erasure finds the later erasure."""
    people.register_with_new_key("ann", FIRST_KEY)
    end = {0: people.harness.stable_end("events")}
    people.erase("ann", FIRST_KEY)
    plan = plan_replay(people.connection, people.topics, "people", people.folder, positions=end)
    assert replay_part(replace(plan, with_personal_values=True), 0).error is None


def test_keys_of_open_transactions_are_awaited(people: People) -> None:
    people.register("ann", FIRST_KEY)
    producer = people.begin_key_transaction("ann", FIRST_KEY)
    histories: list[AggregateHistory] = []
    reader = Thread(target=lambda: histories.append(read_history(people, people.connection)))
    reader.start()
    producer.commit_transaction(30)
    reader.join(30)
    assert data(histories[0]) == [ANNS_DATA]


def test_copied_value_is_damaged(people: People) -> None:
    people.put_key("ann", FIRST_KEY)
    people.register_with_foreign_value("ann", FIRST_KEY)
    with pytest.raises(ContradictionError, match=r"customer\.events:0@\d+.*does not decrypt it") as error:
        read_history(people, people.connection)
    assert "Ann" not in str(error.value)


def test_missing_keys_topic_is_an_error(people: People, connection: Connection) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    delete_topics(connection, people.topics.keys)
    with pytest.raises(ConfigurationError, match=r"customer\.keys does not exist"):
        read_history(people, people.connection)
    assert data(read_history(people, people.connection_without_keyring)) == [MASKED_DATA]


def open_tail(people: People, connection: Connection) -> PartitionTail:
    source = EventPartition("customer", people.topics.events, 0)
    codec = decrypting_codec(connection, source.topics, people.harness.aggregate)
    return PartitionTail(connection, source, 0, codec)


def poll_data(tail: PartitionTail, count: int) -> list[Any]:
    """Return the data of the next events."""
    records: list[Any] = []

    def has_come() -> bool:
        records.extend(tail.poll(10)[0])
        return len(records) >= count

    eventually(has_come)
    return [json.loads(record.value or b"")["data"] for record in records]


def test_tail_decrypts_new_events(people: People) -> None:
    """Projections and process managers use this tail. Each batch is decrypted with the keys that exist then."""
    with closing(open_tail(people, people.connection)) as tail:
        people.register_with_new_key("ann", FIRST_KEY)
        assert poll_data(tail, 1) == [ANNS_DATA]
        people.register_with_new_key("bob", SECOND_KEY)
        assert poll_data(tail, 1) == [ANNS_DATA]
        people.erase("ann", FIRST_KEY)
        people.register("ann", FIRST_KEY)  # no owner would write it: the key has ended
        assert poll_data(tail, 2) == [{"key": FIRST_KEY.kid}, MASKED_DATA]


def test_tail_without_keyring_gets_redacted_values(people: People) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    with closing(open_tail(people, people.connection_without_keyring)) as tail:
        assert poll_data(tail, 1) == [MASKED_DATA]


def rows(people: People, connection: Connection, kind: SourceKind = "events") -> list[Any]:
    """Return the data of events, as a task of a Spark read gets them."""
    with Admin(connection) as admin:
        described = aggregate_topics(people.topics, admin.cluster_id(), find_topics(admin, people.topics))
    marks = personal_members(people.harness.aggregate)
    plan = SourcePlan(
        connection, people.topics.name(kind), kind, "customer", None, "people", personal_members=marks
    )
    read = read_range(plan, described.ids[kind], OffsetRange(0, 0, people.harness.stable_end(kind)))
    return [json.loads(row["data"]) for batch in read for row in batch.to_pylist()]


def test_spark_rows_are_decrypted(people: People) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    assert (rows(people, people.connection), rows(people, people.connection_without_keyring)) == (
        [ANNS_DATA],
        [MASKED_DATA],
    )


def test_export_redacts_unless_personal(people: People) -> None:
    people.register("old", None)  # from before the annotation
    people.register_with_new_key("ann", FIRST_KEY)
    plan = plan_export(people.connection, people.topics, "people", people.folder)
    for expected_data, personal in ((MASKED_DATA, False), (ANNS_DATA, True)):
        export_plan = replace(plan, with_personal_values=personal)
        (columns,) = exported_rows(export_plan, 0, "parquet")
        assert [row["Registered"] for row in columns.to_pylist()] == [expected_data, expected_data]
        (lines,) = exported_rows(export_plan, 0, "jsonl")
        assert [json.loads(line.as_py())["data"] for line in lines.column(0)] == [
            expected_data,
            expected_data,
        ]


def digests(people: People) -> set[str]:
    """Return the digests of replays with the keyring, without it, and with values."""
    texts = set()
    for connection in (people.connection, people.connection_without_keyring):
        plan = plan_replay(connection, people.topics, "people", people.folder)
        for personal in (False, True):
            result = replay_part(replace(plan, with_personal_values=personal), 0)
            assert result.error is None
            texts.add(as_hex(result.total.digest))
    return texts


def test_replays_have_one_digest(people: People) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    (old_digest,) = digests(people)
    end = {0: people.harness.stable_end("events")}
    people.erase("ann", FIRST_KEY)
    (new_digest,) = digests(people)
    plan_before_erasure = plan_replay(
        people.connection, people.topics, "people", people.folder, positions=end
    )
    assert as_hex(replay_part(plan_before_erasure, 0).total.digest) == old_digest != new_digest


def test_replayed_states_have_values_if_asked(people: People) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    plan = plan_replay(people.connection, people.topics, "people", people.folder)
    names = []
    for personal in (True, False):
        fold, result = fold_part(replace(plan, with_personal_values=personal), 0)
        assert fold is not None and result.error is None
        with closing(fold):
            names += [row.decoded.name for row in fold.rows()]  # type: ignore[attr-defined]
    assert names == ["Ann Smith", ""]


def test_trace_decrypts_events(people: People) -> None:
    people.register_with_new_key("ann", FIRST_KEY)
    for connection, expected_data in (
        (people.connection, ANNS_DATA),
        (people.connection_without_keyring, MASKED_DATA),
    ):
        with closing(decrypting_codec(connection, people.topics, people.harness.aggregate)) as codec:
            topics, codecs = {"customer": people.topics}, {"customer": codec}
            trace = trace_messages(connection, topics, "c-1", 0, print, codecs)
        assert [json.loads(message.data) for message in trace.messages] == [expected_data]


def test_dry_run_decides_on_plain_values(people: People) -> None:
    """The dry run shows the events decrypted, as their sender may see them."""
    people.register_with_new_key("ann", FIRST_KEY)
    command = compose(people.harness.aggregate, "ann", "Register", ["name=Ann Brown", "mail=ann@work"])
    decision_settings = DecisionSettings("murmur2", 1000, 20)
    arguments = people.topics, people.harness.aggregate, decision_settings, [command]
    with closing(Simulation(people.connection, *arguments)) as simulation:
        (event,) = simulation.decide(command).events
    assert json.loads(event)["data"] == {"name": "Ann Brown", "mail": "ann@work", "plan": "free"}


def test_present_key_needs_no_keyring(people: People) -> None:
    def present_key_id() -> str | None:
        aggregate, connection = people.harness.aggregate, people.connection_without_keyring
        return current_key_id(connection, people.topics, aggregate, "ann", "murmur2")

    people.register_with_new_key("ann", FIRST_KEY)
    people.register_with_new_key("bob", SECOND_KEY)
    assert present_key_id() == FIRST_KEY.kid
    people.erase("ann", FIRST_KEY)
    assert present_key_id() is None
