from collections.abc import Iterator

import msgspec
import pytest

from cqrs_cli import registry
from cqrs_cli.client.queries.lineage import CommandNode, Lineage
from cqrs_cli.client.queries.messages import LinkedMessage
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.demo.checkout import TOLD, Timeout
from cqrs_cli.demo.play import Performance, StepOutcome, Tally
from cqrs_cli.demo.read_model import ReadModel
from cqrs_cli.demo.story import Step, accounts, tell
from cqrs_cli.runs.snapshot import Snapshot
from tests.support import ROOT


@pytest.fixture
def bank_account() -> Aggregate:
    return registry.load("bank_account", "aggregates", ROOT)


def decided(aggregate: Aggregate, story: list[Step]) -> Decisions:
    """Decide the story as one batch of one partition."""
    headers = [("content-type", b"application/cloudevents+json")]
    records = [
        Record(offset, 1000, step.key.encode(), step.value, list(headers))
        for offset, step in enumerate(story)
    ]
    return decide_batch(aggregate, records, BatchContext(0, lambda _: None, lambda *_: None, lambda: 2000))


def played(aggregate: Aggregate, story: list[Step]) -> Iterator[StepOutcome]:
    for step, (value, _, _) in zip(story, decided(aggregate, story).outcomes, strict=True):
        yield StepOutcome(step, read_outcome(value).data)


def performance(told: list[StepOutcome], replayed: str = "a") -> Performance:
    row = {"order_id": "o-1", "status": "cancelled"}
    orders = ReadModel("o-1", [row])
    return Performance(Snapshot(0.0), told, {}, Tally(2, "a"), Tally(2, replayed), timed_out(), orders)


def timed_out(*besides: tuple[str, str]) -> Timeout:
    """Return the last act with the expected outcomes, and these additional outcomes."""
    nodes = []
    for offset, (type, status) in enumerate([*TOLD.elements(), *besides]):
        place, record = ("order", 0, offset), Record(offset, 0, b"o-1", None)
        sent = LinkedMessage("commands", "order", 0, record, place, type=type)
        told = sent._replace(kind="outcomes", data=msgspec.json.encode({"status": status}))
        nodes.append(CommandNode(place, sent, told))
    nodes[0].commands += nodes[1:]
    return Timeout("o-1", Lineage(nodes[:1], []))


def test_every_step_ends_as_told(bank_account: Aggregate) -> None:
    assert performance(list(played(bank_account, tell(bank_account, "x")))).surprises == []


def test_story_shows_statuses_but_unchanged(bank_account: Aggregate) -> None:
    statuses = {told.verdict.status for told in played(bank_account, tell(bank_account, "x"))}
    assert statuses == {"accepted", "rejected", "duplicate", "failed"}


def test_only_versions_lose_the_race(bank_account: Aggregate) -> None:
    story = tell(bank_account, "x")
    race = next(step for step in story if step.ends == "VERSION_CONFLICT")
    (late,) = (n for n, step in enumerate(story) if step is race)
    unversioned = Step(race.says, race.key, race.value.replace(b'"expectedversion":"2",', b""), "accepted")
    assert unversioned.value != race.value
    told = list(played(bank_account, [*story[:late], unversioned, *story[late + 1 :]]))
    assert performance(told).surprises == []


def test_each_run_has_own_accounts() -> None:
    assert not set(accounts("1")) & set(accounts("2"))


def test_other_endings_are_surprises(bank_account: Aggregate) -> None:
    (first, *_) = played(bank_account, tell(bank_account, "x"))
    wrong = StepOutcome(Step(first.step.says, first.step.key, first.step.value, "OVERDRAWN"), first.verdict)
    assert performance([wrong]).surprises == ["'Ada opens an account' ended with accepted, not OVERDRAWN"]


def test_differing_replays_are_surprises() -> None:
    assert performance([], replayed="b").surprises == ["the replay differs from the live state"]


def test_other_timeouts_are_surprises() -> None:
    assert timed_out().surprises == []
    assert (
        timed_out(("order.Cancel", "deferred")).surprises == []
    )  # a busy machine may decide it only when it is due
    found = timed_out(("order.Cancel", "rejected")).surprises
    assert found == ["order.Cancel of o-1 ended 1 times as rejected, not 0"]


def test_other_rows_are_surprises() -> None:
    assert ReadModel("o-1", []).surprises == ["o-1 stands in recent_orders as nothing"]
    placed = performance([])._replace(orders=ReadModel("o-1", [{"order_id": "o-1", "status": "placed"}]))
    assert placed.surprises == ["o-1 stands in recent_orders as ['placed']"]
    assert performance([])._replace(orders=None).surprises == []
