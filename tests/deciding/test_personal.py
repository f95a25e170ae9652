"""Personal fields on a real broker: owners encrypt all written values with keys that they restore until they end."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.json import decode

from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.personal.encryption import ValueLocation
from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.keys.address import KeyRingAddress, keyring_at
from tests.deciding.customers import (
    CUSTOMER_STATE,
    MASKED_STATE,
    PERSONAL_TEXT,
    customer_topics,
    decrypted_states,
    erase_command,
    event_envelopes,
    files_with_personal_data,
    key_records,
    register_command,
)
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, run_plan_for_error

pytestmark = pytest.mark.kafka


@pytest.fixture
def people(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return customer_topics(connection, prefix, tmp_path)


def lose_keys(harness: TopicHarness) -> None:
    """Remove the key cache of the shard."""
    shutil.rmtree(harness.shard_path().with_name("0.keys"))


def test_all_that_rests_is_sealed(people: TopicHarness) -> None:
    people.send(register_command("c-1"), register_command("c-2"), register_command("c-1", 1))
    run_plan(people.plan())
    assert not any(PERSONAL_TEXT.encode() in (one.value or b"") for one in people.records("events"))
    assert not list(files_with_personal_data(people.folder))
    assert decrypted_states(people) == {"c-1": CUSTOMER_STATE, "c-2": CUSTOMER_STATE}
    [(subject, wrapped), (other, _)] = key_records(people)
    assert (subject, other) == ("c-1", "c-2") and wrapped is not None
    assert people.connection.keys is not None
    key = keyring_at(people.connection.keys).unwrap(people.topics.keys, "c-1", wrapped)
    for event in (event_envelopes(people)[0], event_envelopes(people)[2]):
        sealed = bytes(read_members(event.data)["name"])
        assert (
            decode(key.decrypt(sealed, ValueLocation("customer", "c-1", event.id, "name"))) == PERSONAL_TEXT
        )


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("machine", ["state", "other"])
def test_next_run_seals_with_the_same(people: TopicHarness, cache: bool, machine: str) -> None:
    """The run has its key cache, has lost it, or is on a new machine."""
    people.send(register_command("c-1"))
    run_plan(people.plan())
    if not cache:
        lose_keys(people)
    people.send(register_command("c-1", 1), register_command("c-2"))
    run_plan(people.plan(machine=machine))
    assert [subject for subject, _ in key_records(people)] == ["c-1", "c-2"]
    assert decrypted_states(people, machine) == {"c-1": CUSTOMER_STATE, "c-2": CUSTOMER_STATE}


def test_erasing_ends_the_key(people: TopicHarness) -> None:
    people.send(register_command("c-1"), register_command("c-2"))
    run_plan(people.plan())
    (_, wrapped), _ = key_records(people)
    people.send(erase_command("c-1"), erase_command("c-1", 1))
    run_plan(people.plan())
    assert key_records(people)[2:] == [("c-1", None)]
    assert [outcome.data.status for outcome in people.outcomes()][2:] == ["accepted", "unchanged"]
    erased = event_envelopes(people)[-1]
    assert wrapped is not None and decode(erased.data) == {"key": wrapped.kid}
    assert decrypted_states(people) == {"c-1": MASKED_STATE, "c-2": CUSTOMER_STATE}
    people.send(register_command("c-1", 1))
    run_plan(people.plan(machine="other"))
    assert decrypted_states(people, "other") == {"c-1": CUSTOMER_STATE, "c-2": CUSTOMER_STATE}


def test_erased_person_may_come_again(people: TopicHarness) -> None:
    """In one batch, the key from before the erasure is never written."""
    people.send(
        register_command("c-1"),
        erase_command("c-1"),
        register_command("c-1", 1),
        register_command("c-2"),
        erase_command("c-2"),
    )
    run_plan(people.plan())
    assert [(subject, wrapped is None) for subject, wrapped in key_records(people)] == [
        ("c-1", False),
        ("c-2", True),
    ]
    assert decrypted_states(people) == {"c-1": CUSTOMER_STATE, "c-2": MASKED_STATE}
    run_plan(people.plan(machine="other"))
    assert decrypted_states(people, "other") == {"c-1": CUSTOMER_STATE, "c-2": MASKED_STATE}


@pytest.mark.covers("all-or-none")
@pytest.mark.parametrize(
    "point",
    [
        "flush.after",
        "commit.sent",
        "commit.after",
        "apply.before",
        "apply.inside",
        "apply.after",
        "recover.events",
    ],
)
def test_killed_owner_loses_no_key(people: TopicHarness, point: str) -> None:
    people.send(register_command("c-1"), register_command("c-2"))
    run_plan(people.plan())
    people.send(erase_command("c-1"), register_command("c-2", 1), register_command("c-3"))
    assert OwnerProcess(people.plan(), f"{point}:1:kill", transaction_timeout=3.0).was_killed()
    run_plan(people.plan())
    for machine in ("state", "other"):
        run_plan(people.plan(machine=machine))
        assert decrypted_states(people, machine) == {
            "c-1": MASKED_STATE,
            "c-2": CUSTOMER_STATE,
            "c-3": CUSTOMER_STATE,
        }
    assert sorted(subject for subject, _ in key_records(people)) == ["c-1", "c-1", "c-2", "c-3"]


def test_run_without_ring_is_refused(people: TopicHarness) -> None:
    ringless, root = people.connection, people.folder
    for keys_at, error in (
        (None, "no keyring is set"),
        (KeyRingAddress("file:gone.json", root), "cannot be read"),
    ):
        people.connection = replace(ringless, keys=keys_at)
        with pytest.raises(ConfigurationError, match=error) as message:
            people.plan()
        assert message.value.exit_code == 3


def test_key_that_nobody_erased_stops(people: TopicHarness) -> None:
    """A key's record was replaced.

    With the shard, the next command of the person finds it; without it, recovery does.
    """
    people.send(register_command("c-1"), register_command("c-2"))
    run_plan(people.plan())
    stranger = producer(people.connection)
    stranger.produce(people.topics.keys, None, b"c-1", 0)
    assert stranger.flush(10) == 0
    run_plan(people.plan())
    people.send(register_command("c-1", 1))
    for machine in ("state", "other"):
        error = run_plan_for_error(people.plan(machine=machine))
        assert isinstance(error, ContradictionError) and error.exit_code == 5
        assert "of customer 'c-1' is not in" in error.message
    assert [outcome.data.status for outcome in people.outcomes()] == ["accepted"] * 2
