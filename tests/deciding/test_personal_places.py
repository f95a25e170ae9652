"""Personal fields in shards that are rebuilt, copied and repartitioned are encrypted, and owners find their keys."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.deciding.rebuild.rebuild import rebuild_shards
from cqrs_cli.deciding.repartition import plan_with_future_partitions
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.readers import partition_count
from cqrs_cli.state.key_cache import KeyCache
from tests.deciding.checkpoints.checkpoint_runs import RESTORED_NOTE, data_files, run_once, write_checkpoints
from tests.deciding.customers import (
    CUSTOMER_STATE,
    MASKED_STATE,
    PERSONAL_TEXT,
    customer_topics,
    decrypted_states,
    erase_command,
    files_with_personal_data,
    key_records,
    register_command,
)
from tests.support.commands import FAR_FUTURE, CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, running_owners
from tests.support.repartitioning import repartition_topics, with_stale_partition
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

NAMES = [f"c-{number}" for number in range(8)]


@pytest.fixture
def people(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Eight customers, two of them erased."""
    found = customer_topics(connection, prefix, tmp_path)
    found.send(*map(register_command, NAMES), *map(erase_command, NAMES[:2]))
    run_plan(found.plan())
    return found


def waiting(*subjects: str) -> list[CommandRecord]:
    data = {"name": PERSONAL_TEXT, "mail": f"{PERSONAL_TEXT}@home"}
    return [
        command("customer.Register", entry, f"{entry}.7", data, notbefore=FAR_FUTURE) for entry in subjects
    ]


def released(*subjects: str) -> list[CommandRecord]:
    return [command("cqrs.Release", name, f"{name}.r", {"id": f"{name}.7"}) for name in subjects]


def expected(*erased: str) -> dict[str, object]:
    return {name: MASKED_STATE if name in (*NAMES[:2], *erased) else CUSTOMER_STATE for name in NAMES}


def test_rebuilt_shard_is_sealed(people: TopicHarness) -> None:
    rebuild_shards(people.plan(once=False), lambda now: None, lambda text: None)
    assert decrypted_states(people) == expected() and not list(files_with_personal_data(people.folder))
    names = {path.name.partition("-")[0] for path in people.shard_path().parent.iterdir()}
    assert names == {"0", "0.keys", "0.aside"}
    people.send(erase_command(NAMES[2]), register_command(NAMES[3], 1))
    run_plan(people.plan())
    assert decrypted_states(people) == expected(NAMES[2]) and len(key_records(people)) == 9


def test_checkpoint_has_no_key(people: TopicHarness) -> None:
    """Values that were erased after the checkpoint are erased on the machine that starts from it."""
    write_checkpoints(people)
    people.send(erase_command(NAMES[2]))
    run_plan(people.plan())
    (copy,) = data_files(people)
    kids = [wrapped.key for _, wrapped in key_records(people) if wrapped is not None]
    assert not any(kid.encode() in copy.read_bytes() for kid in kids)
    assert any(RESTORED_NOTE in note for note in run_once(people, "new"))
    assert decrypted_states(people, "new") == expected(NAMES[2]) and not list(
        files_with_personal_data(people.folder)
    )


def test_store_in_memory_keeps_keys_there(people: TopicHarness) -> None:
    people.send(register_command(NAMES[2], 1), erase_command(NAMES[3]))
    run_plan(replace(people.plan(machine="memory"), store="memory"))
    assert len(key_records(people)) == 9 and not (people.folder / "memory").exists()
    run_plan(people.plan())
    assert decrypted_states(people) == expected(NAMES[3])


def test_parked_command_is_sealed(people: TopicHarness) -> None:
    """The deferred command gets its own key. Once the key is deleted, the command is not decided."""
    people.send(*waiting("late", "later"))
    run_plan(people.plan())
    assert not list(files_with_personal_data(people.folder))
    assert all(PERSONAL_TEXT.encode() not in (one.value or b"") for one in people.records("deferred"))
    people.send(
        erase_command("later"),
        *(command("cqrs.Release", one, f"{one}.r", {"id": f"{one}.7"}) for one in ("late", "later")),
    )
    run_plan(people.plan())
    run_plan(people.plan())
    said = {one.causationid: (one.data.status, one.data.reason) for one in people.outcomes()}
    assert said["late.7"][0] == "accepted" and said["later.7"] == ("rejected", "ERASED")


@pytest.mark.covers("growing")
def test_keys_stay_where_they_are(people: TopicHarness) -> None:
    """After a repartitioning, data keys stay in their partition of the keys topic, and the target's owner uses them."""
    repartition_topics(people, 4)
    people.send(*(with_stale_partition(register_command(name, 1), 1) for name in NAMES[:3]))
    run_plan(people.plan())
    people.send(erase_command(NAMES[3]), *(register_command(name, 2) for name in NAMES[4:]))
    for machine in ("state", "state", "other"):
        run_plan(people.plan(machine=machine))
        found = decrypted_states(people, machine)
        assert found == {name: MASKED_STATE if name == NAMES[3] else CUSTOMER_STATE for name in NAMES}
    assert partition_count(people.connection, people.topics.keys) == 1
    ids = people.plan().topics["customer"]
    with closing(
        KeyCache(people.shard_path().with_name("0.keys"), (str(ids.keys_id), ids.ids["events"]))
    ) as cache:
        kept = {name for name in NAMES if cache.keys_of(name).current is not None}
    assert kept == {name for name in NAMES if people.partition_of(name) == 0} - {NAMES[3]}


def test_shards_of_a_growth_are_prepared(people: TopicHarness) -> None:
    plan = plan_with_future_partitions(people.plan(once=False, machine="grown"), "customer", 2)
    rebuild_shards(plan, lambda now: None, lambda text: None)
    people.send(erase_command(NAMES[2]))
    run_plan(people.plan())
    repartition_topics(people, 2)
    people.send(register_command(NAMES[3], 1))
    run_plan(people.plan(machine="grown"))
    run_plan(people.plan(machine="grown"))
    assert decrypted_states(people, "grown") == expected(NAMES[2]) and not list(
        files_with_personal_data(people.folder)
    )


def test_standby_takes_over_keys(people: TopicHarness) -> None:
    """The standby has folded the visible records on its own machine while the active run erased."""
    worker = OwnerProcess(people.plan(once=False))
    people.send(register_command(NAMES[2], 1))
    people.await_outcomes(11)
    with running_owners(people.plan(once=False, machine="other")):
        people.send(erase_command(NAMES[3]), register_command(NAMES[4], 1))
        people.await_outcomes(13)
        eventually(lambda: worker.results() is not None)
    assert decrypted_states(people, "other") == expected(NAMES[3])
