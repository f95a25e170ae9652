"""The broker's part: one transactional id, and a transaction whose markers may come late or get lost."""

from typing import get_args

from tests.model.beats.world import (
    LOG_OF_KIND,
    Commit,
    Log,
    LogName,
    Owner,
    Part,
    Rules,
    Scenario,
    Slot,
    Snapshot,
    Status,
    Step,
    Steps,
    Transaction,
    World,
)

LOG_NAMES: tuple[LogName, ...] = get_args(LogName)


def is_busy(world: World) -> bool:
    """Return True while a final commit is not visible everywhere: until then the coordinator refuses a fence."""
    return world.transaction is not None and world.transaction.is_final


def visible(log: Log) -> Log:
    """Return the records that a reader of committed records sees."""
    stable = next((n for n, slot in enumerate(log) if slot.status in ("open", "hidden")), len(log))
    return tuple(slot for slot in log[:stable] if slot.status == "committed")


def is_readable(log: Log) -> bool:
    """Return True if no open or hidden record keeps readers from the end of the log."""
    return all(slot.status not in ("open", "hidden") for slot in log)


def first_hidden(log: Log) -> int | None:
    """Return the command of the first hidden record."""
    return next((slot.command for slot in log if slot.status == "hidden"), None)


def fence(world: World, number: int | None) -> World:
    """Call `init_transactions` as this owner: an open transaction is aborted."""
    assert not is_busy(world)
    return abort(world)._replace(epoch=number)


def abort(world: World, lost: Part | None = None) -> World:
    """Abort the open transaction, and lose the marker of one part."""
    for name in LOG_NAMES:
        world = _end_records(world, name, "hidden" if name == lost else "aborted")
    return world._replace(transaction=None)


def _end_records(world: World, name: LogName, status: Status) -> World:
    log = world.logs.log(name)
    return world.with_log(
        name, tuple(slot._replace(status=status) if slot.status == "open" else slot for slot in log)
    )


def produce(
    scenario: Scenario, world: World, number: int, command: int, commit: Commit | None, is_failed: bool
) -> World:
    """Write the decision on a command, with the position or without it. The end request is then under way."""
    names: list[LogName] = ["outcomes"]
    if (log := LOG_OF_KIND.get(scenario.commands[command])) is not None and not is_failed:
        names.append(log)
    slot = Slot(command, "open", world.owners[number].claim.number, is_failed)
    for name in names:
        world = world.with_log(name, (*world.logs.log(name), slot))
    parts: list[Part] = [*names, "group"] if commit is not None else [*names]
    return world._replace(transaction=Transaction(number, command, commit, tuple(parts)))


def produce_position(world: World, number: int, commit: Commit) -> World:
    """Write a transaction that commits only a position."""
    return world._replace(transaction=Transaction(number, None, commit, ("group",)))


def end_hidden(world: World, is_committed: bool) -> World:
    """Write all lost markers, with the same result."""
    status: Status = "committed" if is_committed else "aborted"
    for name in LOG_NAMES:
        log = world.logs.log(name)
        world = world.with_log(
            name, tuple(slot._replace(status=status) if slot.status == "hidden" else slot for slot in log)
        )
    commit = world.hidden_commit if is_committed and world.hidden_commit is not None else world.commit
    return world._replace(commit=commit, hidden_commit=None)


def steps(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Let the end request arrive, and write markers."""
    transaction = world.transaction
    if transaction is None:
        return
    if not transaction.is_final:
        yield _arrival(scenario, world, transaction)
        return
    for part in transaction.missing_markers:
        yield Step(f"broker: the commit is visible in the {part}", write_marker(world, part))


def _arrival(scenario: Scenario, world: World, transaction: Transaction) -> Step:
    """Let the end request arrive. The commit is final, and its sender learns that."""
    owner = world.owners[transaction.owner]
    after = world._replace(transaction=transaction._replace(is_final=True))
    if owner.step == "await":
        after = after.with_owner(transaction.owner, _owner_after_commit(world, owner, transaction))
    if not scenario.late_markers:
        for part in transaction.missing_markers:
            after = write_marker(after, part)
    what = "a position" if transaction.command is None else f"command {transaction.command}"
    return Step(f"broker: commits {what}", after, _broken_promise(scenario, world, transaction))


def _owner_after_commit(world: World, owner: Owner, transaction: Transaction) -> Owner:
    commit = transaction.commit
    if commit is not None:
        owner = owner._replace(committed=commit)
        assert commit.claim is not None
        owner = owner._replace(claim=commit.claim)
    if transaction.command is None:
        return owner._replace(step=owner.next_step)
    ends = len(world.logs.outcomes), len(world.logs.events)
    return owner._replace(
        step="loop", next_offset=transaction.command + 1, outcomes_end=ends[0], events_end=ends[1]
    )


def _broken_promise(scenario: Scenario, world: World, transaction: Transaction) -> str:
    """Return the promise that this commit breaks; empty if none."""
    if transaction.command is None:
        return ""
    outcomes = world.logs.outcomes
    decided = [slot.command for slot in outcomes if slot.status in ("committed", "deleted", "open", "hidden")]
    if len(set(decided)) < len(decided):
        return "a command is decided twice"
    if decided != list(range(len(decided))):
        return "a command is skipped"
    if not scenario.hangs and any(slot.is_failed and slot.command != scenario.deadly for slot in outcomes):
        return "a harmless command fails"
    return ""


def write_marker(world: World, part: Part, is_lost: bool = False) -> World:
    """Write a marker of a final commit, or lose it: then Kafka counts it as written."""
    transaction = world.transaction
    assert transaction is not None and part in transaction.missing_markers
    missing = tuple(other for other in transaction.missing_markers if other != part)
    world = world._replace(transaction=transaction._replace(missing_markers=missing) if missing else None)
    if part == "group":
        commit = transaction.commit
        assert commit is not None
        return world._replace(hidden_commit=commit) if is_lost else world._replace(commit=commit)
    return _end_records(world, part, "hidden" if is_lost else "committed")


def lost_markers(world: World) -> Steps:
    """Lose a marker of the transaction. Its owner notices that a broker is lost, and starts again."""
    transaction = world.transaction
    if transaction is None:
        return
    owner = world.owners[transaction.owner]
    if transaction.is_final:
        for part in transaction.missing_markers:
            after = write_marker(world, part, is_lost=True)
            if owner.step != "gone":
                after = after.with_owner(transaction.owner, owner._replace(step="restart"))
            yield Step(f"the marker of the commit in the {part} is lost", after)
        return
    for name in LOG_NAMES:
        if name in transaction.missing_markers:
            after = abort(world, lost=name)._replace(epoch=None)
            yield Step(f"the transaction times out, and the abort marker in the {name} is lost", after)


def snapshot(scenario: Scenario, world: World) -> Snapshot:
    """Return what a current broker returns."""
    return Snapshot(world.logs, world.commit, len(scenario.commands))


def cut_off(world: World) -> Steps:
    """Cut a broker off: it keeps returning the present logs and offsets to clients that reach it."""
    if world.outdated is None and world.transaction is None and all(map(is_readable, world.logs)):
        commands_end = 1 + max((slot.command for slot in visible(world.logs.outcomes)), default=-1)
        outdated = Snapshot(world.logs, world.commit, commands_end)
        yield Step("a broker is cut off", world._replace(outdated=outdated))


def delete_outcomes(world: World) -> Steps:
    """Let retention delete all outcomes while no owner decides."""
    idle = all(owner.step in ("gone", "fence") for owner in world.owners)
    outcomes = world.logs.outcomes
    if idle and world.transaction is None and visible(outcomes) and is_readable(outcomes):
        deleted = tuple(
            slot._replace(status="deleted") if slot.status == "committed" else slot for slot in outcomes
        )
        yield Step("retention deletes the outcomes", world.with_log("outcomes", deleted))
