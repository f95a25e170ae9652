"""Personal fields in shards that are rebuilt, copied and repartitioned are encrypted, and owners find their keys."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.deciding.catch_up import fold_visible
from cqrs_cli.deciding.key_session import open_owner_keys
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.rebuild.rebuild import rebuild_shards
from cqrs_cli.deciding.repartition import plan_with_future_partitions
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.kafka.clients import Isolation
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import partition_count
from cqrs_cli.kafka.topics.partitioner import producer_partition
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.state.key_cache import KeyCache
from cqrs_cli.state.memory import MemoryStore
from tests.deciding.checkpoints.checkpoint_runs import RESTORED_NOTE, data_files, run_once, write_checkpoints
from tests.deciding.customers import (
    CUSTOMER_STATE,
    PERSONAL_TEXT,
    REDACTED_STATE,
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
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Eight customers, two of them erased."""
    customers = customer_topics(connection, prefix, tmp_path)
    customers.send(*map(register_command, NAMES), *map(erase_command, NAMES[:2]))
    run_plan(customers.plan())
    return customers


def deferred_registrations(*subjects: str) -> list[CommandRecord]:
    data = {"name": PERSONAL_TEXT, "mail": f"{PERSONAL_TEXT}@home"}
    return [
        command("customer.Register", subject, f"{subject}.7", data, notbefore=FAR_FUTURE)
        for subject in subjects
    ]


def release_commands(*subjects: str) -> list[CommandRecord]:
    return [command("cqrs.Release", name, f"{name}.r", {"id": f"{name}.7"}) for name in subjects]


def expected_states(*erased: str) -> dict[str, object]:
    return {name: REDACTED_STATE if name in (*NAMES[:2], *erased) else CUSTOMER_STATE for name in NAMES}


def test_rebuilt_shard_is_encrypted(harness: TopicHarness) -> None:
    rebuild_shards(harness.plan(once=False), lambda now: None, lambda text: None)
    assert decrypted_states(harness) == expected_states() and not list(
        files_with_personal_data(harness.folder)
    )
    names = {path.name.partition("-")[0] for path in harness.shard_path().parent.iterdir()}
    assert names == {"0", "0.keys", "0.aside"}
    harness.send(erase_command(NAMES[2]), register_command(NAMES[3], 1))
    run_plan(harness.plan())
    assert decrypted_states(harness) == expected_states(NAMES[2]) and len(key_records(harness)) == 9


def test_checkpoint_has_no_key(harness: TopicHarness) -> None:
    """Values that were erased after the checkpoint are erased on the machine that starts from it."""
    write_checkpoints(harness)
    harness.send(erase_command(NAMES[2]))
    run_plan(harness.plan())
    (checkpoint_file,) = data_files(harness)
    kids = [wrapped.key for _, wrapped in key_records(harness) if wrapped is not None]
    assert not any(kid.encode() in checkpoint_file.read_bytes() for kid in kids)
    assert any(RESTORED_NOTE in note for note in run_once(harness, "new"))
    assert decrypted_states(harness, "new") == expected_states(NAMES[2]) and not list(
        files_with_personal_data(harness.folder)
    )


def test_memory_store_keeps_keys_in_memory(harness: TopicHarness) -> None:
    harness.send(register_command(NAMES[2], 1), erase_command(NAMES[3]))
    run_plan(replace(harness.plan(machine="memory"), store="memory"))
    assert len(key_records(harness)) == 9 and not (harness.folder / "memory").exists()
    run_plan(harness.plan())
    assert decrypted_states(harness) == expected_states(NAMES[3])


def test_deferred_command_is_encrypted(harness: TopicHarness) -> None:
    """The deferred command gets its own key. Once the key is deleted, the command is not decided."""
    harness.send(*deferred_registrations("late", "later"))
    run_plan(harness.plan())
    assert not list(files_with_personal_data(harness.folder))
    assert all(PERSONAL_TEXT.encode() not in (record.value or b"") for record in harness.records("deferred"))
    harness.send(
        erase_command("later"),
        *release_commands("late", "later"),
    )
    run_plan(harness.plan())
    run_plan(harness.plan())
    verdicts = {record.causationid: (record.data.status, record.data.reason) for record in harness.outcomes()}
    assert verdicts["late.7"][0] == "accepted" and verdicts["later.7"] == ("rejected", "ERASED")


@pytest.mark.covers("growing")
def test_keys_stay_in_their_partition(harness: TopicHarness) -> None:
    """After a repartitioning, data keys stay in their partition of the keys topic, and the child's owner uses them."""
    repartition_topics(harness, 4)
    harness.send(*(with_stale_partition(register_command(name, 1), 1) for name in NAMES[:3]))
    run_plan(harness.plan())
    harness.send(erase_command(NAMES[3]), *(register_command(name, 2) for name in NAMES[4:]))
    for machine in ("state", "state", "other"):
        run_plan(harness.plan(machine=machine))
        states = decrypted_states(harness, machine)
        assert states == {name: REDACTED_STATE if name == NAMES[3] else CUSTOMER_STATE for name in NAMES}
    assert partition_count(harness.connection, harness.topics.keys) == 1
    ids = harness.plan().topics["customer"]
    with closing(
        KeyCache(harness.shard_path().with_name("0.keys"), (str(ids.keys_id), ids.ids["events"]))
    ) as cache:
        cached_names = {name for name in NAMES if cache.keys_of(name).current is not None}
    assert cached_names == {name for name in NAMES if harness.partition_of(name) == 0} - {NAMES[3]}


def test_parent_may_decide_while_its_child_reads(harness: TopicHarness) -> None:
    """The child reads the keys after it has requested the end of the parent's events, so no key can be missing."""
    plan = plan_with_future_partitions(harness.plan(once=False, machine="grown"), "customer", 2)
    child, decided = Partition("customer", 1), list[str]()
    name = next(
        name for name in map("d-{}".format, range(99)) if producer_partition("murmur2", name.encode(), 2)
    )

    class LogOfBusyParent(PartitionLog):
        def bounds(self, kind: Kind, isolation: Isolation = "read_committed") -> tuple[int, int]:
            if kind == "events" and not decided:
                decided.append(name)
                harness.send(register_command(name, 1))
                run_plan(harness.plan())
            return super().bounds(kind, isolation)

    store = MemoryStore(plan.deciding.window)
    log = LogOfBusyParent(plan.connection, harness.topics, 1, plan.log(child).codec)
    with open_owner_keys(plan, child, harness.aggregate, None) as keys:
        cache = StateCache(harness.aggregate, store, store.token(), keys=keys)
        fold_visible(plan, child, log, harness.aggregate, cache, None)
        cache.check_keys()
    assert decided and name in dict(store.items())


def test_prepared_child_shards_are_encrypted(harness: TopicHarness) -> None:
    plan = plan_with_future_partitions(harness.plan(once=False, machine="grown"), "customer", 2)
    rebuild_shards(plan, lambda now: None, lambda text: None)
    harness.send(erase_command(NAMES[2]))
    run_plan(harness.plan())
    repartition_topics(harness, 2)
    harness.send(register_command(NAMES[3], 1))
    run_plan(harness.plan(machine="grown"))
    run_plan(harness.plan(machine="grown"))
    assert decrypted_states(harness, "grown") == expected_states(NAMES[2]) and not list(
        files_with_personal_data(harness.folder)
    )


def test_standby_takes_over_keys(harness: TopicHarness) -> None:
    """The standby has folded the visible records on its own machine while the active run erased."""
    active_run = OwnerProcess(harness.plan(once=False))
    harness.send(register_command(NAMES[2], 1))
    harness.await_outcomes(11)
    with running_owners(harness.plan(once=False, machine="other")):
        harness.send(erase_command(NAMES[3]), register_command(NAMES[4], 1))
        harness.await_outcomes(13)
        eventually(lambda: active_run.results() is not None)
    assert decrypted_states(harness, "other") == expected_states(NAMES[3])
