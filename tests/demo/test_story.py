from collections.abc import Iterator

import msgspec
import pytest

from cqrs_cli import registry
from cqrs_cli.client.queries.message_trees import CommandNode, MessageTrees
from cqrs_cli.client.queries.messages import LinkedMessage
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.demo.checkout import EXPECTED_OUTCOMES, TracedOrder
from cqrs_cli.demo.play import DemoResults, StepOutcome, Tally
from cqrs_cli.demo.read_model import ReadModel
from cqrs_cli.demo.story import Step, account_ids, story_steps
from cqrs_cli.runs.snapshot import Snapshot
from tests.support import ROOT


@pytest.fixture
def bank_account() -> Aggregate:
    return registry.load("bank_account", "aggregates", ROOT)


def decide_story(aggregate: Aggregate, story: list[Step]) -> Decisions:
    """Decide the story as one batch of one partition."""
    headers = [("content-type", b"application/cloudevents+json")]
    records = [
        Record(offset, 1000, step.key.encode(), step.value, list(headers))
        for offset, step in enumerate(story)
    ]
    return decide_batch(aggregate, records, BatchContext(0, lambda _: None, lambda *_: None, lambda: 2000))


def step_outcomes(aggregate: Aggregate, story: list[Step]) -> Iterator[StepOutcome]:
    for step, (value, _, _) in zip(story, decide_story(aggregate, story).outcomes, strict=True):
        yield StepOutcome(step, read_outcome(value).data)


def demo_results(outcomes: list[StepOutcome], replayed: str = "a") -> DemoResults:
    row = {"order_id": "o-1", "status": "cancelled"}
    orders = ReadModel("o-1", [row])
    return DemoResults(Snapshot(0.0), outcomes, {}, Tally(2, "a"), Tally(2, replayed), unpaid_order(), orders)


def unpaid_order(*additional: tuple[str, str]) -> TracedOrder:
    """Return an unpaid order with the expected outcomes, and these additional outcomes."""
    nodes = []
    for offset, (type, status) in enumerate([*EXPECTED_OUTCOMES.elements(), *additional]):
        location, record = ("order", 0, offset), Record(offset, 0, b"o-1", None)
        command = LinkedMessage("commands", "order", 0, record, location, type=type)
        outcome = command._replace(kind="outcomes", data=msgspec.json.encode({"status": status}))
        nodes.append(CommandNode(location, command, outcome))
    nodes[0].commands += nodes[1:]
    return TracedOrder("o-1", MessageTrees(nodes[:1], []))


def test_every_step_has_its_expected_result(bank_account: Aggregate) -> None:
    assert (
        demo_results(list(step_outcomes(bank_account, story_steps(bank_account, "x")))).unexpected_results
        == []
    )


def test_story_has_every_status_but_unchanged(bank_account: Aggregate) -> None:
    statuses = {
        outcome.verdict.status for outcome in step_outcomes(bank_account, story_steps(bank_account, "x"))
    }
    assert statuses == {"accepted", "rejected", "duplicate", "failed"}


def test_second_withdrawal_fails_by_its_version(bank_account: Aggregate) -> None:
    story = story_steps(bank_account, "x")
    number, conflict_step = next(
        (number, step) for number, step in enumerate(story) if step.expected_result == "VERSION_CONFLICT"
    )
    unversioned_step = Step(
        conflict_step.description,
        conflict_step.key,
        conflict_step.value.replace(b'"expectedversion":"2",', b""),
        "accepted",
    )
    assert unversioned_step.value != conflict_step.value
    outcomes = list(step_outcomes(bank_account, [*story[:number], unversioned_step, *story[number + 1 :]]))
    assert demo_results(outcomes).unexpected_results == []


def test_each_run_has_own_accounts() -> None:
    assert not set(account_ids("1")) & set(account_ids("2"))


def test_other_results_are_reported(bank_account: Aggregate) -> None:
    (first, *_) = step_outcomes(bank_account, story_steps(bank_account, "x"))
    wrong_outcome = StepOutcome(
        Step(first.step.description, first.step.key, first.step.value, "OVERDRAWN"), first.verdict
    )
    assert demo_results([wrong_outcome]).unexpected_results == [
        "'Ada opens an account' ended with accepted, expected OVERDRAWN"
    ]


def test_differing_replay_is_reported() -> None:
    assert demo_results([], replayed="b").unexpected_results == [
        "the replayed states differ from the live states"
    ]


def test_other_outcomes_of_the_order_are_reported() -> None:
    assert unpaid_order().unexpected_results == []
    # On a busy machine the cancellation may be decided only when it is due: then it is not deferred.
    assert unpaid_order(("order.Cancel", "deferred")).unexpected_results == []
    differences = unpaid_order(("order.Cancel", "rejected")).unexpected_results
    assert differences == ["order.Cancel of o-1 was rejected 1 times, expected 0"]


def test_other_rows_are_reported() -> None:
    assert ReadModel("o-1", []).unexpected_results == [
        "o-1 is missing in table recent_orders, expected the status cancelled"
    ]
    not_cancelled = demo_results([])._replace(
        orders=ReadModel("o-1", [{"order_id": "o-1", "status": "placed"}])
    )
    assert not_cancelled.unexpected_results == [
        "o-1 has the status placed in table recent_orders, expected the status cancelled"
    ]
    assert demo_results([])._replace(orders=None).unexpected_results == []
