"""The usage of KEKs is counted by the data keys under them."""

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.doctor.keys import count_kek_usage
from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topics import Admin, create_extra
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.kek_usage import KekUsage, KeysCount
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.topic import key_value

OLD_KEYRING, NEW_KEYRING = Keyring({"old": bytes(64)}), Keyring({"new": bytes(range(64)), "old": bytes(64)})


def key_record(keyring: Keyring, subject: str, number: int = 0) -> bytes | None:
    return key_value(keyring.wrap("c.keys", subject, DataKey.of_random(bytes([number]) * 72)))


def count_usage(*records: tuple[str, bytes | None]) -> dict[str, KekUsage]:
    count = KeysCount("c.keys")
    log = [
        Record(offset, 0, subject.encode(), key_record)
        for offset, (subject, key_record) in enumerate(records)
    ]
    for record in log:
        count.add_records(0, [record])
    return dict(count.usage_by_kek())


def test_the_last_record_of_a_subject_counts() -> None:
    usage = count_usage(
        ("a", key_record(OLD_KEYRING, "a")),
        ("b", key_record(OLD_KEYRING, "b")),
        ("a", key_record(NEW_KEYRING, "a")),
    )
    assert usage == {"old": KekUsage(1, 1), "new": KekUsage(1, 0)}
    assert [kek_usage.is_unused for kek_usage in usage.values()] == [False, False]


def test_replaced_records_still_use_their_kek() -> None:
    """A reader from the beginning reads them before the newer records."""
    usage = count_usage(("a", key_record(OLD_KEYRING, "a")), ("a", key_record(NEW_KEYRING, "a")))
    assert usage["old"] == KekUsage(0, 1) and not usage["old"].is_unused


def test_erased_keys_do_not_count() -> None:
    usage = count_usage(("a", key_record(OLD_KEYRING, "a")), ("a", None), ("b", None))
    assert usage == {"old": KekUsage(0, 1)}
    assert count_usage(("a", None)) == {}


def test_invalid_records_are_inconsistencies() -> None:
    with pytest.raises(ContradictionError, match=r"c\.keys partition 0 offset 1 is not a key"):
        count_usage(("a", key_record(OLD_KEYRING, "a")), ("b", b"{}"))


@pytest.mark.kafka
def test_all_partitions_are_read(connection: Connection, prefix: str) -> None:
    topics = Topics("c", prefix)
    with pytest.raises(ConfigurationError, match="keys does not exist"):
        count_kek_usage(connection, topics)
    with Admin(connection) as admin:
        create_extra(admin, topics, "keys", 3)
    assert count_kek_usage(connection, topics) == {}
    producer = clients.producer(connection)
    for number in range(6):
        keyring = OLD_KEYRING if number < 4 else NEW_KEYRING
        producer.produce(topics.keys, key_record(keyring, f"c-{number}"), f"c-{number}", number % 3)
    producer.flush(20)
    assert count_kek_usage(connection, topics) == {"new": KekUsage(2, 0), "old": KekUsage(4, 0)}
