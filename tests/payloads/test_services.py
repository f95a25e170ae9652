"""Services that read events with large data name a missing payload, wait, and continue when it is back."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.following.processes.plan import ProcessPlan
from cqrs_cli.following.processes.supervisor import ReactingSupervisor, create_supervisors
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.telemetry.listener import DatagramListener
from cqrs_cli.telemetry.status_file import read_status
from tests.following.processes.process_harness import ProcessHarness, expected_payments, read_records
from tests.payloads.orders import large_order
from tests.payloads.stores import FolderStore
from tests.support.checkout import source_statuses, verify_reactions
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_with_reporter
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def harness(connection: Connection, prefix: str, store: FolderStore, tmp_path: Path) -> ProcessHarness:
    """A process manager with a payload store."""
    return ProcessHarness(replace(connection, payloads=store.address), prefix, state_dir=tmp_path / "state")


@contextmanager
def running_process(plan: ProcessPlan) -> Iterator[ReactingSupervisor]:
    """Run a process manager on one partition, with accessible notes."""
    stopping = threading.Event()
    (supervisor,) = create_supervisors(plan, plan.subscriptions[:1], 0, stopping)
    with running_with_reporter(supervisor):
        yield supervisor


@pytest.mark.covers("payloads")
def test_process_forwards_large_data(harness: ProcessHarness, store: FolderStore, tmp_path: Path) -> None:
    """Large data go from an event to a command by reference. An owner decides it, and the verification finds it."""
    event, reference = large_order(store, harness.prefix, 1)
    harness.write_events([event])
    harness.place_orders(2, 1)
    harness.run_once(from_beginning=True)
    assert harness.payment_requests() == expected_payments(1, 2)
    large, small = harness.sent_commands()
    assert (large["datasha256"], small["data"]) == (reference.sha256, {"customer": "ann"})
    assert store.file(reference, f"{harness.prefix}payment").exists()
    payments = TopicHarness(harness.connection, harness.prefix, tmp_path, "payment")
    run_plan(payments.plan())
    assert [outcome.data.status for outcome in payments.outcomes()] == ["accepted"] * 2
    assert payments.violations() == []
    reactions = verify_reactions(harness)
    assert (reactions.listed_violations, reactions.command_count, reactions.changed_commands) == ([], 4, 0)


@pytest.mark.covers("payloads")
def test_process_waits_for_a_lost_event(harness: ProcessHarness, store: FolderStore) -> None:
    """A process manager reacts to earlier events, and waits for a lost payload. The status reports it.

    It waits in the same way for the payloads of its own commands.
    """
    event, reference = large_order(store, harness.prefix, 1)
    payload = store.file(reference, f"{harness.prefix}order").read_bytes()
    store.delete(reference, f"{harness.prefix}order")
    harness.place_orders(0, 1)
    harness.write_events([event])
    harness.place_orders(2, 1)
    offset = next(
        record.offset
        for record in read_records(harness.connection, harness.events, 0)
        if record.key == event.key
    )
    plan = harness.plan(once=False, from_beginning=True)
    with (
        DatagramListener("127.0.0.1") as task_notes,
        running_process(replace(plan, reports=task_notes.address)) as process,
    ):
        (note,) = eventually(task_notes.take_new_messages)
        assert f"{harness.events}:0@{offset} refers to payload {reference.sha256}: it is missing" in note
        assert harness.payment_requests() == expected_payments(0, 1)
        eventually(lambda: "it is missing" in str(source_statuses(harness)["order"].wait_reason))
        (store.path / f"{harness.prefix}payment").write_text("a file where the folder should be")
        store.put(payload, f"{harness.prefix}order")
        eventually(lambda: "could not be stored" in process.notes[-1])
        eventually(lambda: "could not be stored" in str(source_statuses(harness)["order"].wait_reason))
        assert harness.payment_requests() == expected_payments(0, 1)
        (store.path / f"{harness.prefix}payment").unlink()
        eventually(lambda: harness.payment_requests() == expected_payments(0, 3))
        eventually(lambda: not read_status(process.plan.status_folder(process.subscription)).blocked)
