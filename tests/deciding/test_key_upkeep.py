"""Idle owners re-wrap keys, and let the broker compact deleted keys, on a real broker."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.doctor.keys import count_kek_usage
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.keys.kek_usage import KekUsage
from tests.deciding.customers import (
    CUSTOMER_STATE,
    REDACTED_STATE,
    customer_topics,
    decrypted_states,
    erase_command,
    key_records,
    register_command,
    use_keyring,
)
from tests.support.harness import SHORT_TIMEOUTS, TopicHarness
from tests.support.owners import OwnerProcess, run_plan, running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return customer_topics(connection, prefix, tmp_path)


def test_idle_owner_rewraps_keys(harness: TopicHarness) -> None:
    """Afterwards the old KEK may be removed: a machine without a shard reads everything without it."""
    use_keyring(harness, old=b"m" * 64)
    harness.send(
        register_command("c-1"), register_command("c-2"), register_command("c-3"), erase_command("c-2")
    )
    run_plan(harness.plan())
    before = {subject: wrapped.kid for subject, wrapped in key_records(harness) if wrapped is not None}
    use_keyring(harness, new=b"n" * 64, old=b"m" * 64)
    with running_owners(harness.plan(once=False)):
        eventually(lambda: count_kek_usage(harness.connection, harness.topics)["old"].current == 0)
    assert count_kek_usage(harness.connection, harness.topics)["new"] == KekUsage(2, 0)
    after = {subject: wrapped.kid for subject, wrapped in key_records(harness)[-2:] if wrapped is not None}
    assert after == {subject: before[subject] for subject in ("c-1", "c-3")}
    use_keyring(harness, new=b"n" * 64)
    harness.send(register_command("c-4"))
    for machine in ("state", "other"):
        run_plan(harness.plan(machine=machine))
        assert decrypted_states(harness, machine) == {
            "c-1": CUSTOMER_STATE,
            "c-2": REDACTED_STATE,
            "c-3": CUSTOMER_STATE,
            "c-4": CUSTOMER_STATE,
        }


@pytest.mark.covers("all-or-none")
@pytest.mark.parametrize("portion", [1, 2])
def test_successor_of_killed_owner_rewraps_remaining_keys(harness: TopicHarness, portion: int) -> None:
    """The owner dies when a part of the keys is re-wrapped. The next owner re-wraps the remaining keys."""
    use_keyring(harness, old=b"m" * 64)
    harness.send(*(register_command(f"c-{number}") for number in range(5)))
    run_plan(harness.plan())
    use_keyring(harness, new=b"n" * 64, old=b"m" * 64)
    point = f"upkeep.produced:{portion}:kill"
    assert OwnerProcess(
        harness.plan(once=False), point, transaction_timeout=3.0, rewrap_batch_size=2
    ).was_killed()
    assert count_kek_usage(harness.connection, harness.topics)["old"].current == 5 - 2 * (portion - 1)
    with running_owners(harness.plan(once=False)):
        eventually(lambda: count_kek_usage(harness.connection, harness.topics)["old"].current == 0)
    use_keyring(harness, new=b"n" * 64)
    run_plan(harness.plan(machine="other"))
    assert decrypted_states(harness, "other") == {f"c-{number}": CUSTOMER_STATE for number in range(5)}


def test_compaction_tick_follows_the_last_key(harness: TopicHarness) -> None:
    """The owner writes a single compaction tick, however long the topic is idle, and another after the next key."""
    timing = replace(SHORT_TIMEOUTS, compaction_tick_after=0.0)
    harness.send(register_command("c-1"), erase_command("c-1"))
    with running_owners(harness.plan(once=False, timing=timing)):
        eventually(lambda: key_records(harness) == [("c-1", None), ("", None)])
        harness.send(register_command("c-2"))
        eventually(lambda: [subject for subject, _ in key_records(harness)] == ["c-1", "", "c-2", ""])
        harness.send(register_command("c-2", 1))
        eventually(lambda: len(harness.outcomes()) == 4)
    assert len(key_records(harness)) == 4
    run_plan(harness.plan(machine="other"))
    assert decrypted_states(harness, "other") == {"c-1": REDACTED_STATE, "c-2": CUSTOMER_STATE}
