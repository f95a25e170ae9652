"""All possible next steps: an owner or the broker continues, the driver retires the first run, or a fault happens."""

from confluent_kafka import KafkaError

from cqrs_cli.ownership.claim import TERMINAL
from tests.model.broker import Slot, Transaction, written
from tests.model.deciding import reference
from tests.model.owner import commits
from tests.model.rules import Rules
from tests.model.supervisor import STEPS
from tests.model.turn import Turn
from tests.model.world import Driver, Owner, Scenario, Step, Steps, World

#: Steps with a call to the broker that may fail. The owner does not know whether the call had its effect.
_CALLING = {"claim", "look", "position", "take", "fold_events", "fold_outcomes", "loop", "await"}

#: Steps that may last so long that the committed offset expires: a week without a commit.
_FOR_LONG = {"warm", "loop", "judge", "fence", "gone"}


def steps(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield every step that the world may take."""
    yield from of_broker(scenario, world)
    for number, owner in enumerate(world.owners):
        if owner.step in STEPS:
            yield from STEPS[owner.step](Turn(scenario, rules, world, number))
    yield from of_driver(scenario, rules, world)
    if world.faults:
        for step in faults(scenario, rules, world):
            yield step._replace(world=step.world._replace(faults=world.faults - 1))


def of_broker(scenario: Scenario, world: World) -> Steps:
    """Let the end of a transaction arrive, write markers, or abort the other program's transaction."""
    broker, transaction = world.broker, world.broker.transaction
    if transaction is not None and not transaction.committing:
        yield _arrival(scenario, world, transaction)
    elif transaction is not None:
        for target in transaction.unmarked:
            yield Step(
                f"broker: the commit is visible in {target}", world._replace(broker=broker.marked(target))
            )
    if Slot("foreign") in broker.events + broker.outcomes:
        yield Step("a stranger's transaction is aborted", world._replace(broker=broker.undisturbed()))


def _arrival(scenario: Scenario, world: World, transaction: Transaction) -> Step:
    """Let the broker commit, and let the owner that waits learn it."""
    claim, broker = transaction.claim, world.broker.reached()
    broken_promise = ""
    if "outcomes" in transaction.unmarked:
        expected = reference(scenario.commands)
        outcomes, events = written(broker.outcomes, True), written(broker.events, True)
        if outcomes != expected.outcomes[: len(outcomes)] or events != expected.events[: len(events)]:
            broken_promise = "what is committed is not what the commands come to"
        elif len(outcomes) < transaction.offset:
            broken_promise = "a command is passed over"
        elif (claim.run_epoch, TERMINAL) in world.claimed:
            broken_promise = "a run decides after it was ended"
    if not scenario.scattered:
        for target in transaction.unmarked:
            broker = broker.marked(target)
    by_driver = transaction.owner_number == len(world.owners)
    claimed = (claim.run_epoch, TERMINAL if by_driver else claim.submission)
    after = world._replace(broker=broker, claimed=world.claimed | {claimed})
    if not by_driver and world.owners[transaction.owner_number].step == "await":
        after = after.with_owner(
            transaction.owner_number, _informed(world.owners[transaction.owner_number], world)
        )
    return Step(
        f"broker: commits offset {transaction.offset} of run {claim.run_epoch}", after, broken_promise
    )


def _informed(owner: Owner, world: World) -> Owner:
    """Return the owner once it knows that its commit succeeded."""
    batch, broker = owner.batch, world.broker
    transaction = broker.transaction
    assert transaction is not None
    if batch is None:
        return owner._replace(step=owner.next_step, next_step="", committed=transaction.offset)
    before = owner.positions  # the events' report comes late: positions are lower bounds
    outcomes = _end_of_own(broker.outcomes) if batch.outcomes else before.outcomes
    return owner._replace(
        step="loop",
        batch=None,
        next_offset=batch.end,
        committed=batch.end,
        batch_limit=2,
        positions=before._replace(commands=batch.end, outcomes=outcomes, clock=batch.clock),
        state=batch.state,
        staged=(*owner.staged, *batch.memory),
    )


def _end_of_own(log: tuple[Slot, ...]) -> int:
    """Return the end offset of a batch, as its delivery reports give it."""
    return max((offset + 1 for offset, slot in enumerate(log) if slot.status == "open"), default=0)


def of_driver(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Retire the first run from outside: read the claim, fence, and commit a terminal claim."""
    (step, claim_before), broker, number = world.driver, world.broker, len(world.owners)
    run = scenario.owners[0][0]
    gone = world._replace(driver=Driver("gone"))
    if step == "idle":
        if rules.terminal(broker.claim, f"r{run}") is None:
            yield Step("driver: finds nothing to end", gone)
        else:
            yield Step("driver: sees its run's claim", world._replace(driver=Driver("fence", broker.claim)))
    elif step == "fence" and not broker.is_settling:
        after = world._replace(broker=broker.fenced(number), driver=Driver("claim", claim_before))
        yield Step("driver: fences", after)
    elif step == "claim" and not broker.hides_an_offset:
        terminal = rules.terminal(broker.claim or claim_before, f"r{run}")
        if terminal is None or broker.offset is None or broker.epoch != number:
            yield Step("driver: finds that it has lost the partition", gone)
        else:
            world_after = gone._replace(broker=broker.produced(number, broker.offset, terminal))
            yield Step("driver: leaves a terminal claim", world_after)


def faults(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield the faults that are possible now."""
    broker, transaction = world.broker, world.broker.transaction
    if transaction is not None and not transaction.committing:
        yield Step("fault: the transaction times out", world._replace(broker=broker.fenced(None)))
    quiet = all(owner.step in _FOR_LONG for owner in world.owners)
    if quiet and broker.offset is not None and not broker.hides_an_offset:
        claimed = frozenset(claim for claim in world.claimed if claim[1] != TERMINAL)
        expired = broker._replace(offset=None, claim=None)
        yield Step("fault: the committed offset expires", world._replace(broker=expired, claimed=claimed))
    if Slot("foreign") not in broker.events + broker.outcomes:
        for target in ("events", "outcomes"):
            yield Step(
                f"fault: a stranger's transaction opens on {target}",
                world._replace(broker=broker.disturbed(target)),
            )
    for number in range(len(world.owners)):
        yield from _of_owner(Turn(scenario, rules, world, number))


def _of_owner(turn: Turn) -> Steps:
    owner, world = turn.owner, turn.world
    restarted = turn.scenario.owner(owner.run, owner.own_claim.submission + len(world.owners))
    if owner.step not in (restarted.step, "gone"):
        yield Step(f"fault: {owner} crashes and is started again", world.with_owner(turn.number, restarted))
    if owner.step in _CALLING:
        size = owner.batch.end - owner.next_offset if owner.batch is not None else 0
        yield _fault(turn.fail(KafkaError._TIMED_OUT, size))
    if owner.step == "loop" and owner.next_offset + 2 <= min(
        len(turn.scenario.commands), owner.next_offset + owner.batch_limit
    ):
        if turn.rules.a_refused_record_stops_the_commit:
            yield _fault(turn.fail(KafkaError.MSG_SIZE_TOO_LARGE, 2))
        else:
            yield from map(_fault, commits(turn, owner.next_offset + 2, loses_a_record=True))


def _fault(step: Step) -> Step:
    return step._replace(label=f"fault: {step.label}")
