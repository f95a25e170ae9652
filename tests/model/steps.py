"""All possible next steps: an owner or the broker continues, the driver retires the first run, or a fault happens."""

from confluent_kafka import KafkaError

from cqrs_cli.ownership.claim import TERMINAL
from tests.model.broker import Slot, Transaction, committed_records, last_stable
from tests.model.deciding import reference
from tests.model.owner import commit_batch, first_undecided
from tests.model.rules import Rules
from tests.model.supervisor import STEPS
from tests.model.turn import Turn
from tests.model.world import Driver, Owner, Scenario, Step, Steps, World

#: Steps with a call to the broker that may fail. The owner does not know whether the call had its effect.
_CALLING_STEPS = {
    "claim",
    "outcomes_end",
    "position",
    "take",
    "fold_events",
    "fold_outcomes",
    "loop",
    "await",
}

#: Steps that may last so long that the committed offset expires: a week without a commit.
_LONG_STEPS = {"warm", "loop", "judge", "fence", "gone"}


def steps(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield every step that the world may take."""
    yield from broker_steps(scenario, world)
    for number, owner in enumerate(world.owners):
        if owner.step in STEPS:
            yield from STEPS[owner.step](Turn(scenario, rules, world, number))
    yield from driver_steps(scenario, rules, world)
    if world.faults:
        for step in faults(scenario, rules, world):
            yield step._replace(world=step.world._replace(faults=world.faults - 1))


def broker_steps(scenario: Scenario, world: World) -> Steps:
    """Let the end request of a transaction arrive, write its markers, or abort the foreign transaction."""
    broker, transaction = world.broker, world.broker.transaction
    if transaction is not None and not transaction.is_final:
        yield _commit_arrival(scenario, world, transaction)
    elif transaction is not None:
        for target in transaction.missing_markers:
            yield Step(
                f"broker: the commit is visible in {target}",
                world._replace(broker=broker.after_marker(target)),
            )
    if Slot("foreign") in broker.events + broker.outcomes:
        yield Step("the foreign transaction is aborted", world._replace(broker=broker.after_foreign_abort()))


def _commit_arrival(scenario: Scenario, world: World, transaction: Transaction) -> Step:
    """Let the end request reach the broker, which commits, and report the commit to the waiting owner."""
    claim, broker = transaction.claim, world.broker.after_end_request()
    broken_promise = ""
    if "outcomes" in transaction.missing_markers:
        expected = reference(scenario.commands)
        outcomes, events = committed_records(broker.outcomes, True), committed_records(broker.events, True)
        if outcomes != expected.outcomes[: len(outcomes)] or events != expected.events[: len(events)]:
            broken_promise = "the committed log is not a prefix of the sequential result"
        elif len(outcomes) < transaction.offset:
            broken_promise = "a command is skipped"
        elif (claim.run_epoch, TERMINAL) in world.claimed:
            broken_promise = "a run decides after it was retired"
    if not scenario.late_markers:
        for target in transaction.missing_markers:
            broker = broker.after_marker(target)
    by_driver = transaction.owner_number == len(world.owners)
    claimed = (claim.run_epoch, TERMINAL if by_driver else claim.submission)
    after = world._replace(broker=broker, claimed=world.claimed | {claimed})
    if not by_driver and world.owners[transaction.owner_number].step == "await":
        after = after.with_owner(
            transaction.owner_number, _owner_after_commit(world.owners[transaction.owner_number], world)
        )
    return Step(
        f"broker: commits offset {transaction.offset} of run {claim.run_epoch}", after, broken_promise
    )


def _owner_after_commit(owner: Owner, world: World) -> Owner:
    """Return the owner after the report that its commit succeeded."""
    batch, broker = owner.batch, world.broker
    transaction = broker.transaction
    assert transaction is not None
    if batch is None:
        return owner._replace(step=owner.next_step, next_step="", committed=transaction.offset)
    before = (
        owner.positions
    )  # delivery reports of events come late, so the position of the events stays a lower bound
    outcomes = _batch_end(broker.outcomes) if batch.outcomes else before.outcomes
    return owner._replace(
        step="loop",
        batch=None,
        next_offset=batch.end,
        committed=batch.end if "group" in transaction.missing_markers else owner.committed,
        batch_limit=2,
        positions=before._replace(commands=batch.end, outcomes=outcomes, clock=batch.clock),
        state=batch.state,
        unapplied_ids=(*owner.unapplied_ids, *batch.memory),
    )


def _batch_end(log: tuple[Slot, ...]) -> int:
    """Return the end offset of the records of the open transaction, as delivery reports give it."""
    return max((offset + 1 for offset, slot in enumerate(log) if slot.status == "open"), default=0)


def driver_steps(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Let the driver retire the first run: read the claim, fence, and commit a terminal claim."""
    (step, claim_before), broker, driver_number = world.driver, world.broker, len(world.owners)
    run = scenario.owners[0][0]
    gone = world._replace(driver=Driver("gone"))
    if step == "idle":
        if rules.terminal(broker.claim, f"r{run}") is None:
            yield Step("driver: finds no claim to replace", gone)
        else:
            yield Step(
                "driver: reads the claim of its run", world._replace(driver=Driver("fence", broker.claim))
            )
    elif step == "fence" and not broker.has_pending_commit:
        after = world._replace(broker=broker.after_fence(driver_number), driver=Driver("claim", claim_before))
        yield Step("driver: fences", after)
    elif step == "claim" and not broker.hides_offset_commit:
        terminal = rules.terminal(broker.claim or claim_before, f"r{run}")
        if terminal is None or broker.offset is None or broker.epoch != driver_number:
            yield Step("driver: finds that it has lost the partition", gone)
        else:
            offset = first_undecided(rules, broker)
            world_after = gone._replace(broker=broker.after_produce(driver_number, offset, terminal))
            yield Step("driver: commits a terminal claim", world_after)


def faults(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield the faults that are possible now."""
    broker, transaction = world.broker, world.broker.transaction
    if transaction is not None and not transaction.is_final:
        yield Step("fault: the transaction times out", world._replace(broker=broker.after_fence(None)))
    is_idle = all(owner.step in _LONG_STEPS for owner in world.owners)
    is_outcome_deleted = any(slot.status == "deleted" for slot in broker.outcomes)
    if is_idle and broker.offset is not None and not broker.hides_offset_commit and not is_outcome_deleted:
        claimed = frozenset(claim for claim in world.claimed if claim[1] != TERMINAL)
        expired = broker._replace(offset=None, claim=None)
        yield Step("fault: the committed offset expires", world._replace(broker=expired, claimed=claimed))
    if (
        scenario.deletes_outcomes
        and is_idle
        and broker.offset is not None
        and all(owner.step != "loop" or owner.committed == owner.next_offset for owner in world.owners)
        and last_stable(broker.outcomes) == len(broker.outcomes)
    ):
        yield Step("fault: retention deletes the outcomes", world._replace(broker=broker.after_retention()))
    if Slot("foreign") not in broker.events + broker.outcomes:
        for target in ("events", "outcomes"):
            yield Step(
                f"fault: a foreign transaction begins on {target}",
                world._replace(broker=broker.after_foreign_begin(target)),
            )
    for number in range(len(world.owners)):
        yield from _owner_faults(Turn(scenario, rules, world, number))


def _owner_faults(turn: Turn) -> Steps:
    owner, world = turn.owner, turn.world
    restarted = turn.scenario.owner(owner.run, owner.own_claim.submission + len(world.owners))
    if owner.step not in (restarted.step, "gone"):
        yield Step(f"fault: {owner} crashes and is started again", world.with_owner(turn.number, restarted))
    if owner.step in _CALLING_STEPS:
        size = owner.batch.end - owner.next_offset if owner.batch is not None else 0
        yield _fault(turn.fail(KafkaError._TIMED_OUT, size))
    if owner.step == "loop" and owner.next_offset + 2 <= min(
        len(turn.scenario.commands), owner.next_offset + owner.batch_limit
    ):
        if turn.rules.failed_record_prevents_commit:
            yield _fault(turn.fail(KafkaError.MSG_SIZE_TOO_LARGE, 2))
        else:
            yield from map(_fault, commit_batch(turn, owner.next_offset + 2, loses_record=True))


def _fault(step: Step) -> Step:
    return step._replace(label=f"fault: {step.label}")
