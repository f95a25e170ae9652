"""Helpers of tests of process managers: the source of one, and the status and the verification of another."""

from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.subscription_reader import read_subscriptions
from cqrs_cli.following.processes.verify import verify_process
from cqrs_cli.proof.reactions import ReactionFindings
from cqrs_cli.status.partition import PartitionStatus
from cqrs_cli.status.subscriptions import subscription_status
from tests.following.processes.process_harness import ProcessHarness
from tests.support import ROOT

PROCESS = """
from collections.abc import Iterator
import cqrs_cli as cqrs
from aggregates.order import Placed, AddLine
from aggregates.payment import Request

def react(event: Placed, at: cqrs.Recorded) -> Iterator[cqrs.Send]:
    if at.aggregate_id == "o-0-5":
        {then}
    yield cqrs.Send("payment", at.aggregate_id, Request(event.customer))

process = cqrs.Process(react)
"""


def source_statuses(harness: ProcessHarness) -> dict[str, PartitionStatus]:
    """Return the status of each source, by aggregate."""
    loaded = load_process(harness.name, ROOT, "aggregates")
    subscriptions = read_subscriptions(harness.connection, harness.topics, loaded.sources)
    statuses = (
        subscription_status(subscription, harness.topics, harness.settings.state_dir)
        for subscription in subscriptions
    )
    return {status.aggregate: status for status in statuses}


def verify_reactions(harness: ProcessHarness) -> ReactionFindings:
    loaded = load_process(harness.name, harness.root, "aggregates")
    return verify_process(harness.connection, harness.settings, loaded, lambda _: None)
