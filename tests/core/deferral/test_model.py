"""Every interleaving of a few steps: each deferred command ends with one final outcome, and each rule is needed."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from cqrs_cli.core.deferral.deferrals import Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.outcome import DeferredTarget
from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.deciding import deferred_fold as fold
from cqrs_cli.deciding.broker_clock import BrokerClock
from tests.core.deferral.world import SCENARIOS, TOPIC, World, first_world, steps

#: The most commands in the longest scenario. More commands mean that a command is resubmitted forever.
MAX_COMMANDS = 9


def decided_early(world: World) -> bool:
    """True if a command was decided too early by the broker's timestamp, beyond the tolerance."""
    due_times: dict[str | None, int] = {}
    early = False
    for outcome, (_, timestamp) in zip(world.read(), world.outcomes, strict=True):
        if isinstance(outcome.data.due, str):
            due_times[outcome.causationid] = parse_timestamp(outcome.data.due)
        elif isinstance(outcome.data.deferredfrom, str) and outcome.data.reason != "CANCELLED":
            early = (
                early
                or timestamp < due_times.get(outcome.causationid, 0) - world.rules.limits.clock_tolerance
            )
    return early


def fault_of(world: World) -> str:
    """Return the fault of a world; empty without a fault."""
    if len(world.commands) > MAX_COMMANDS:
        return "a command is resubmitted forever"
    outcomes = world.read()
    finals = [outcome for outcome in outcomes if outcome.data.status in ("accepted", "unchanged", "rejected")]
    counts = Counter(outcome.causationid for outcome in finals)
    if counts and max(counts.values()) > 1:
        return "a command is decided twice"
    final_by_id = {outcome.causationid: outcome for outcome in finals}
    request, command = final_by_id.get("stop"), final_by_id.get("x")
    was_requested = request is not None and request.data.status == "unchanged"
    if (
        request
        and was_requested
        and request.type.startswith("cqrs.Cancel")
        and command
        and command.data.reason != "CANCELLED"
    ):
        return "a cancelled command is decided"
    if not was_requested and decided_early(world):
        return "a command is decided before it is due"
    deferred = {outcome.causationid for outcome in outcomes if outcome.data.status == "deferred"}
    if world.is_over() and deferred - final_by_id.keys():
        return "a deferred command is lost"
    return ""


def explore(scenario: str) -> tuple[int, set[str]]:
    """Return the number of worlds of a scenario, and the faults that were found."""
    first = first_world(scenario)
    visited, unvisited, faults = {first}, [first], set[str]()
    while unvisited and not faults:
        for next_world in steps(unvisited.pop()):
            if next_world in visited:
                continue
            visited.add(next_world)
            if fault := fault_of(next_world):
                faults.add(fault)
            elif len(next_world.commands) <= MAX_COMMANDS:
                unvisited.append(next_world)
    return len(visited), faults


@pytest.mark.covers("deferred-once")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_deferred_commands_end_once(scenario: str) -> None:
    worlds, faults = explore(scenario)
    assert faults == set()
    assert worlds > 100


def _trust_every_record(deferrals: Deferrals, offset: int) -> Deferral | None:
    """Take every record with `deferredfrom` as the owner's record."""
    entries = [*deferrals._view().resubmitted_entries(), *deferrals._view().due_entries(10**15, 9)]
    return next((entry for entry in entries if entry.offset < offset and entry.attempt), None)


def _find_no_id(deferrals: Deferrals, subject: str, command_id: str) -> None:
    return None


def _end_at_once(deferrals: Deferrals, subject: str, command_id: str, request: Any) -> DeferredTarget:
    """Let a cancel end the entry at once."""
    entry = Deferrals.find_by_command_id(deferrals, subject, request.id)
    if entry is not None:
        deferrals.remove_entry(entry)
    return DeferredTarget(request.id, 0)


def _store_no_offset(deferrals: Deferrals, entry: Deferral, offset: int) -> None:
    """Do not store the offset of the resubmitted command in the entry."""
    deferrals.set_entry(replace(entry, due=entry.due))


def _store_wrong_offset(deferrals: Deferrals, entry: Deferral, offset: int) -> None:
    """Store the offset of the next record, as if the offset were guessed before the broker's report."""
    deferrals.set_entry(replace(entry, resubmitted_offset=offset + 1, resubmitted_topic_id=TOPIC))


def _learn_nothing(clock: BrokerClock, own: int, stamps: Any) -> None:
    """Ignore that the owner's clock is ahead."""


_RETURN_EMPTY: Callable[..., Any] = lambda *_: {}  # noqa: E731

_RETURN_NONE: Callable[..., Any] = lambda *_: None  # noqa: E731

BROKEN_RULES: list[tuple[str, Any, str, Any]] = [
    ("two machines", fold, "entries_ended_by", _RETURN_EMPTY),
    ("later copied", Deferrals, "find_resubmitted_at", _trust_every_record),
    ("repeated", Deferrals, "find_by_command_id", _find_no_id),
    ("cancelled", Deferrals, "cancel_or_release", _end_at_once),
    ("lost", Deferrals, "set_resubmitted_offset", _store_no_offset),
    ("lost", Deferrals, "set_resubmitted_offset", _store_wrong_offset),
    ("skipped", fold, "defer_lost_again", _RETURN_EMPTY),
    ("lost", fold, "fold_deferred", _RETURN_EMPTY),
    ("ahead", BrokerClock, "learn_from_timestamps", _learn_nothing),
    ("ahead", Deferrals, "defer_if_early", _RETURN_NONE),
]


@pytest.mark.parametrize(("scenario", "owner", "name", "replacement"), BROKEN_RULES)
def test_each_rule_is_needed(
    scenario: str, owner: Any, name: str, replacement: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, replacement)
    _, faults = explore(scenario)
    assert faults
