"""A projection of events with large data."""

import threading
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.settings.settings import load_settings
from cqrs_cli.telemetry.listener import DatagramListener
from tests.following.processes.process_harness import order_placed
from tests.following.projections.topics import create_order_topics, write_events
from tests.payloads.bank import LARGE_NAME
from tests.payloads.orders import large_order
from tests.payloads.stores import FolderStore
from tests.support import ROOT
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(find_spec("sqlalchemy") is None, reason="needs the extra `projections`"),
]


@pytest.mark.covers("payloads")
def test_projection_waits_for_a_lost_event(
    connection: Connection, prefix: str, store: FolderStore, tmp_path: Path
) -> None:
    """The projection writes the earlier events, names the lost event once, and continues when the payload is back."""
    from cqrs_cli.following.projections.database import parse_database
    from cqrs_cli.following.projections.plan import ProjectorResult
    from cqrs_cli.following.projections.prepare import prepare_projection, stable_ends
    from cqrs_cli.following.projections.task import run_task
    from tests.following.projections.projector_harness import error_texts, read_tables, recent_orders

    events = create_order_topics(connection, prefix, 1).events
    event, reference = large_order(store, prefix, 1)
    write_events(connection, events, 0, [order_placed(0), event, order_placed(2)])
    payload = store.file(reference, f"{prefix}order").read_bytes()
    store.delete(reference, f"{prefix}order")
    settings, database = (
        load_settings({"topic_prefix": prefix}, ROOT),
        parse_database("sqlite:///read.db", tmp_path),
    )
    with_store = replace(connection, payloads=store.address)
    preparation = prepare_projection(settings, with_store, recent_orders(), database, print)
    assert preparation.live is not None
    plan = replace(preparation.live, end_offsets=stable_ends(preparation.live))
    results: list[ProjectorResult] = []
    with DatagramListener("127.0.0.1") as task_notes:
        task_results = run_task(plan, range(len(plan.sources)), ROOT, ROOT, task_notes.address)
        thread = threading.Thread(target=lambda: results.extend(task_results))
        thread.start()
        (note,) = eventually(task_notes.take_new_messages)
    assert f"{events}:0@" in note and f"refers to payload {reference.sha256}: it is missing" in note
    assert list(read_tables(database)[0]) == ["o-0-0"]
    store.put(payload, f"{prefix}order")
    thread.join(60)
    assert error_texts(results) == [] and "continues" in results[0].notes[1]
    customers = {"o-0-0": "ann", "o-0-1": f"1{LARGE_NAME}", "o-0-2": "ann"}
    assert {order: customer for order, (customer, _) in read_tables(database)[0].items()} == customers
